"""The dictionary in ``machines_dict_string``: a Python literal in a user's file, read without ever
running it.

Three walls. The text is bounded in size and depth before Python's parser sees it; of the syntax
tree only dictionaries, texts, numbers and signs are let through, so that a refusal can say which
line holds code; the values are made by ``ast.literal_eval`` alone.
"""

from __future__ import annotations

import ast
import difflib
import re
import warnings
from typing import Final, cast

from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.file_faults import KeyPath, located

LITERAL_LENGTH_MAX: Final = 256 * 1024
LITERAL_DEPTH_MAX: Final = 8

_KEY: Final = "machines_dict_string"
_TOKEN: Final = re.compile(
    r"'''(?:\\.|[^\\])*?'''"
    r'|"""(?:\\.|[^\\])*?"""'
    r"|'(?:\\.|[^'\\\n])*'"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|\#[^\n]*|[\[({\])}\n]|[^\[({\])}\n'\"\#]+|.",
    re.DOTALL,
)
_MACHINE_KEYS: Final = {
    "username_string": "login",
    "account_string": "account",
    "email_notify": "email_notify",
    "min_int": "nodes_min",
    "max_int": "nodes_max",
}
_CODE: Final[dict[type[ast.AST], str]] = {
    ast.Call: "a function call",
    ast.Name: "a name without quotes",
    ast.Attribute: "an attribute",
    ast.Subscript: "a subscript",
    ast.Lambda: "a lambda",
    ast.BinOp: "a calculation",
    ast.JoinedStr: "an f-string",
    ast.Dict: "an unpacked dictionary",
    ast.List: "a list",
    ast.Tuple: "a tuple",
}


def take_literal(rows: list[str], source: str, first_line: int) -> tuple[str, int]:
    """The text from the opening brace at the start of ``rows`` to the end of the line that closes
    it.

    Also returns how many rows it took. Text behind the closing brace stays part of it, and is
    refused as code later.
    """
    text = "\n".join(rows)[: LITERAL_LENGTH_MAX + 1]
    depth, line = 0, first_line
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in ("[", "(", "{"):
            depth += 1
            if depth > LITERAL_DEPTH_MAX:
                raise located(
                    source, line, f"{_KEY} is nested too deep", hint="two levels are needed"
                )
        elif token in ("]", ")", "}"):
            depth -= 1
        elif token == "\n" and depth <= 0:
            return text[: match.start()], line - first_line + 1
        line += token.count("\n")
    if len(text) > LITERAL_LENGTH_MAX:
        raise located(source, first_line, f"{_KEY} is longer than {LITERAL_LENGTH_MAX} characters")
    if depth > 0:
        raise located(
            source, first_line, f"{_KEY} opens a bracket here that is never closed", hint="add }"
        )
    return text, line - first_line + 1


def read_machines_literal(
    text: str, *, source: str, first_line: int
) -> tuple[dict[str, dict[str, object]], dict[str, dict[KeyPath, int]]]:
    """The machines by name with their keys in the common schema, and the line of each key within a
    machine."""
    tree = _parse(text, source, first_line)
    for node in ast.walk(tree):
        _check_plain(node, source, first_line)
    if not isinstance(tree, ast.Dict):
        raise located(
            source,
            first_line,
            f"{_KEY} must be a dictionary of machines",
            hint="{'machine': {'min_int': 1, 'max_int': 2}}",
        )
    machines: dict[str, dict[str, object]] = {}
    lines: dict[str, dict[KeyPath, int]] = {}
    for name_node, machine_node in _items(tree):
        line = first_line + name_node.lineno - 1
        name = _text_of(name_node, "a machine's name", source, line)
        if name in machines:
            raise located(source, line, f"machine {name[:60]!r} stands twice in {_KEY}")
        machines[name], lines[name] = _machine(name, machine_node, source, first_line)
        lines[name][()] = line
    return machines, lines


def _machine(
    name: str, node: ast.expr, source: str, first_line: int
) -> tuple[dict[str, object], dict[KeyPath, int]]:
    if not isinstance(node, ast.Dict):
        raise located(
            source,
            first_line + node.lineno - 1,
            f"machine {name[:60]!r} must be described by a dictionary",
            hint="{'min_int': 1, 'max_int': 2}",
        )
    found: dict[str, object] = {}
    lines: dict[KeyPath, int] = {}
    for key_node, value_node in _items(node):
        line = first_line + key_node.lineno - 1
        key = _text_of(key_node, "a key", source, line)
        if key not in _MACHINE_KEYS:
            near = difflib.get_close_matches(key[:60], _MACHINE_KEYS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(_MACHINE_KEYS)}"
            raise located(source, line, f"unknown key {key[:60]!r}", hint=hint)
        if _MACHINE_KEYS[key] in found:
            raise located(source, line, f"the key {key!r} stands twice for machine {name[:60]!r}")
        found[_MACHINE_KEYS[key]] = ast.literal_eval(value_node)
        lines[(_MACHINE_KEYS[key],)] = line
    for key in ("min_int", "max_int"):
        if _MACHINE_KEYS[key] not in found:
            raise located(
                source,
                first_line + node.lineno - 1,
                f"machine {name[:60]!r} has no {key!r}",
                hint=f"add '{key}' : 1",
            )
    return found, lines


def _parse(text: str, source: str, first_line: int) -> ast.expr:
    """The syntax tree of a text that ``take_literal`` has bounded; nothing is run by this."""
    try:
        with warnings.catch_warnings():
            # A strange escape in a text is the user's affair; the value shows it.
            warnings.simplefilter("ignore")
            return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        line = first_line + max(error.lineno or 1, 1) - 1
        raise located(
            source,
            line,
            f"{_KEY} is not a dictionary of plain values: {error.msg}",
            hint="only texts in quotes and whole numbers are read; nothing in it is ever run",
        ) from None
    except (ValueError, RecursionError, MemoryError):
        raise located(source, first_line, f"{_KEY} cannot be read: nested too deep") from None


def _check_plain(node: ast.AST, source: str, first_line: int) -> None:
    """Let a dictionary, a text, a number and a sign pass, and nothing else."""
    if isinstance(node, ast.Dict | ast.expr_context | ast.unaryop):
        is_plain = not isinstance(node, ast.Dict) or None not in node.keys
    elif isinstance(node, ast.UnaryOp):
        is_plain = isinstance(node.op, ast.USub | ast.UAdd) and (
            isinstance(node.operand, ast.Constant) and type(node.operand.value) is int
        )
    else:
        is_plain = isinstance(node, ast.Constant) and type(node.value) in (str, int)
    if not is_plain:
        line = first_line + getattr(node, "lineno", 1) - 1
        what = _CODE.get(type(node), f"{type(node).__name__.lower()}")
        raise _code_fault(node, what, source, line)


def _code_fault(node: ast.AST, what: str, source: str, line: int) -> InputError:
    if isinstance(node, ast.Constant):
        return located(
            source,
            line,
            f"{_KEY} holds {node.value!r:.40}, which is neither a text nor a whole number",
        )
    return located(
        source,
        line,
        f"{_KEY} holds Python code ({what}); it was not run",
        hint="only a dictionary of texts in quotes and whole numbers is read",
    )


def _items(node: ast.Dict) -> list[tuple[ast.expr, ast.expr]]:
    """Keys and values; ``_check_plain`` has seen to it that no key is a ``**``."""
    return list(zip(cast("list[ast.expr]", node.keys), node.values, strict=True))


def _text_of(node: ast.expr, what: str, source: str, line: int) -> str:
    value = ast.literal_eval(node)
    if not isinstance(value, str):
        raise located(source, line, f"{what} in {_KEY} must be a text in quotes, not {value!r:.40}")
    return value

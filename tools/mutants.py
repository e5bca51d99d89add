"""Take one thing away from the code at a time, and see whether a test notices: mutation testing of
the parts where a mistake is not seen until it costs somebody a trip (docs/decisions/0031).

    tools/mutants.py [WORD...]    targets whose module or group has one of the words; default: all

``tests/mutants/targets.toml`` says which tests watch a module, ``explained.toml`` beside it why a
mutant may live. Each mutant exists in the memory of a process of its own, forked from one that has
loaded the libraries: the checkout is never touched, and tests that start programs do not count.
Exit code 1: a mutant lives unexplained, or an explanation is out of date.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import importlib
import os
import signal
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
TABLES: Final = ROOT / "tests" / "mutants"
PROCESSES: Final = 2
LIMIT_FACTOR, LIMIT_LEAST_S = 5.0, 30.0
"""A mutant may take so much longer than the code as it is; then it counts as noticed."""
ASLEEP_S, ASLEEP_MOST = 2.0, 6
"""One that has done nothing for so long waits for what never comes, and takes no processor: the
next one begins beside it, up to so many together.
"""
LIBRARIES: Final = ("cryptography.x509", "grpc.aio", "hypothesis", "pydantic", "pytest", "sqlite3")
OPERATORS: Final[dict[type[ast.AST], type[Any]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
}  # fmt: skip
TWINS: Final = {"max": "min", "min": "max", "any": "all", "all": "any"}
LEFT_OUT: Final = frozenset({"annotation", "returns", "decorator_list", "bases", "type_params"})


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one module."""

    name: tuple[str, str, str, str]
    """Module, function, line, change, as in ``explained.toml``: a number would soon be another."""
    source: str


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """What may be done to a node: in words, and what stands in its place."""
    match node:
        case ast.Compare(ops=[op, *_]) if type(op) in OPERATORS:
            yield _words(op), _with(node, ops=[OPERATORS[type(op)](), *node.ops[1:]])
        case ast.BoolOp(op=op) | ast.BinOp(op=op) if type(op) in OPERATORS:
            yield _words(op), _with(node, op=OPERATORS[type(op)]())
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            yield "without not", inner
        case ast.Constant(value=bool() as value):
            yield f"{value} becomes {not value}", ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield f"{value} becomes {value + 1}", ast.Constant(value + 1)
        case ast.Call(func=ast.Name(id=name)) if name in TWINS:
            yield f"{name} becomes {TWINS[name]}", _with(node, func=ast.Name(TWINS[name]))
        case ast.Call(keywords=[_, *_] as keywords):
            for at, each in enumerate(keywords):
                rest = keywords[:at] + keywords[at + 1 :]
                yield f"without {each.arg}", _with(node, keywords=rest)
        case ast.JoinedStr(values=[_, _, *_] as parts):
            for at, part in enumerate(parts):
                if isinstance(part, ast.FormattedValue):
                    others = parts[:at] + parts[at + 1 :]
                    yield f"without {ast.unparse(part.value)}", _with(node, values=others)
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            yield "condition negated", _with(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.Return(value=ast.expr() as found) if not isinstance(found, ast.Constant):
            yield "returns None", ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Raise() | ast.AugAssign():
            yield "line taken away", ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.Delete():
            yield "line taken away", ast.Pass()


def _words(op: ast.AST) -> str:
    return f"{type(op).__name__} becomes {OPERATORS[type(op)].__name__}"


def _with(node: Any, **fields: Any) -> Any:
    made = copy.copy(node)
    vars(made).update(fields)
    return made


def _is_talk(node: ast.AST) -> bool:
    """Logs, hints and what only checks types: no rule is in there."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="log" | "_log"))):
            return True
        case ast.Expr(value=ast.Call() as call):
            return _is_talk(call)
        case ast.Assert() | ast.keyword(arg="hint") | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    return False


def mutants_of(module: str) -> list[Mutant]:
    """Every change of a module, in the order of the file; none of the words of its faults."""
    text = (ROOT / module).read_text(encoding="utf-8")
    tree, lines, found = ast.parse(text), text.splitlines(), list[Mutant]()

    def visit(node: ast.AST, where: str, is_told: bool) -> None:
        for field, held in ast.iter_fields(node):
            if field in LEFT_OUT:
                continue
            listed = held if isinstance(held, list) else [held]
            for at, child in enumerate(listed):
                if not isinstance(child, ast.AST) or _is_talk(child):
                    continue
                inside = where
                if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    inside = f"{where}.{child.name}".strip(".")
                for words, other in changes(child) if not is_told else ():
                    listed[at] = other
                    setattr(node, field, listed if held is listed else other)
                    line = " ".join(lines[getattr(child, "lineno", 1) - 1].split())
                    source = ast.unparse(ast.fix_missing_locations(tree))
                    found.append(Mutant((module, inside, line, words), source))
                    listed[at] = child
                    setattr(node, field, held)
                visit(child, inside, is_told or isinstance(child, ast.Raise))

    visit(tree, "", False)
    return found


class _Mutated(SourceFileLoader):
    """Loads a module from a text in memory."""

    text = ""

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.text, self.get_filename(fullname), "exec")


class _Finder(MetaPathFinder):
    """Puts a mutant in the place of its module."""

    def __init__(self, mutant: Mutant) -> None:
        self._file = ROOT / "gridtravel" / mutant.name[0]
        self._name = f"gridtravel.{mutant.name[0].removesuffix('.py').replace('/', '.')}"
        self._text = mutant.source

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        loader = _Mutated(fullname, str(self._file))
        loader.text = self._text
        return spec_from_file_location(fullname, self._file, loader=loader)


class Trial:
    """One mutant, or the code as it is (``None``), on its way through its tests."""

    def __init__(self, tests: list[str], mutant: Mutant | None, limit_s: float) -> None:
        self.mutant, self._limit_s = mutant, limit_s
        self.begun = self._worked_at = time.monotonic()
        self._ticks = 0
        self._process = os.fork()
        if self._process == 0:
            code = 70
            with contextlib.suppress(BaseException):
                code = self._tested(tests)
            os._exit(code)

    def _tested(self, tests: list[str]) -> int:
        import pytest

        os.setpgid(0, 0)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nowhere, number)
        os.chdir(ROOT)
        sys.path.insert(0, str(ROOT))
        if self.mutant is not None:
            sys.meta_path.insert(0, _Finder(self.mutant))
        return int(pytest.main(["-x", "--assert=plain", "-p", "no:cacheprovider", *tests]))

    def passed(self) -> bool | None:
        """Whether all tests passed in time; ``None``: not known yet."""
        if time.monotonic() > self.begun + self._limit_s:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process, signal.SIGKILL)
        done, status = os.waitpid(self._process, os.WNOHANG)
        return status == 0 if done else None

    def is_asleep(self) -> bool:
        """True when none of its threads has worked for ``ASLEEP_S``; one that is only kept from
        working, because the machine is busy, is not asleep.
        """
        stat = Path(f"/proc/{self._process}/stat").read_text().rpartition(")")[2].split()
        state, ticks = stat[0], int(stat[11]) + int(stat[12])
        if state != "S" or ticks != self._ticks:
            self._ticks, self._worked_at = ticks, time.monotonic()
        return time.monotonic() > self._worked_at + ASLEEP_S


def survivors(module: str, tests: list[str]) -> tuple[int, list[Mutant]]:
    """How many mutants of a module there are, and those that no test noticed."""
    plain = Trial(tests, None, limit_s=3600)
    while (passed := plain.passed()) is None:
        time.sleep(0.02)
    if not passed:
        sys.exit(f"mutants: without any change one of these fails: {' '.join(tests)}")
    limit_s = max(LIMIT_LEAST_S, LIMIT_FACTOR * (time.monotonic() - plain.begun))
    waiting, alive, running = mutants_of(module), list[Mutant](), list[Trial]()
    count = len(waiting)
    while waiting or running:
        busy = sum(not trial.is_asleep() for trial in running)
        if waiting and busy < PROCESSES and len(running) < ASLEEP_MOST:
            running.append(Trial(tests, waiting.pop(0), limit_s))
        time.sleep(0.02)
        for trial in list(running):
            if (passed := trial.passed()) is not None:
                running.remove(trial)
                alive += [trial.mutant] if passed and trial.mutant is not None else []
    return count, alive


def main(words: list[str]) -> int:
    """Entry point."""
    targets = tomllib.loads((TABLES / "targets.toml").read_text())["targets"]
    told = tomllib.loads((TABLES / "explained.toml").read_text()).get("survivors", [])
    explained = {(each["module"], each["where"], each["line"], each["change"]) for each in told}
    for name in LIBRARIES:
        importlib.import_module(name)
    is_bad = False
    for target in targets:
        module = target["module"]
        if words and not any(word in f"{target['group']} {module}" for word in words):
            continue
        begun = time.monotonic()
        count, alive = survivors(module, target["tests"])
        names = {each.name for each in alive}
        took_min = (time.monotonic() - begun) / 60
        said = f"{count - len(alive)} noticed, {len(names & explained)} lives explained"
        print(f"{module}: {count} mutants, {said}, {took_min:.1f} min", flush=True)
        stale = {each for each in explained - names if each[0] == module}
        for title, found in (("lives", names - explained), ("explained in vain", stale)):
            for _, where, line, change in sorted(found):
                print(f"  {title}: {where or 'the module'}: {change}\n      {line}", flush=True)
                is_bad = True
    return int(is_bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

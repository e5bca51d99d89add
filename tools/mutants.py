"""Take one thing away from the code at a time, and see whether a test notices: mutation testing of
the parts where a mistake is not seen until it costs somebody a trip (docs/decisions/0031).

    tools/mutants.py [WORD...]    targets whose name has one of the words; default: all

``tests/mutants/targets.toml`` says which tests watch a module; ``explained.toml`` beside it why a
mutant may live. Each mutant exists in the memory of a process of its own, forked from one that has
loaded the libraries: the checkout is never touched, so tests that start programs do not count here.
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
LIMIT_FACTOR, LIMIT_LEAST_S = 5.0, 20.0
"""A mutant may take so much longer than the code as it is; then it counts as noticed."""
LIBRARIES: Final = ("cryptography.x509", "grpc.aio", "hypothesis", "pydantic", "pytest", "sqlite3")
BOUNDARIES: Final = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
OPPOSITES: Final = {ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
                    ast.In: ast.NotIn, ast.NotIn: ast.In}  # fmt: skip
SUMS: Final = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult}
TWINS: Final = {"max": "min", "min": "max", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one module. Named by what it changes, not by a line's number."""

    module: str
    where: str
    """Class and function."""
    line: str
    change: str
    number: int
    """Tells mutants of equal name apart, in the order of the file."""
    source: str

    @property
    def name(self) -> tuple[str, str, str, str]:
        """By which ``explained.toml`` knows it."""
        return self.module, self.where, self.line, self.change


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST | None]]:
    """What may be done to a node: words, and what stands in its place (``None``: nothing)."""
    match node:
        case ast.Compare(ops=[op, *_]) if type(op) in BOUNDARIES | OPPOSITES:
            other = (BOUNDARIES | OPPOSITES)[type(op)]
            yield (
                f"{type(op).__name__} becomes {other.__name__}",
                _with(node, ops=[other(), *node.ops[1:]]),
            )
        case ast.BoolOp(op=op):
            yield "and/or", _with(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            yield "without not", inner
        case ast.BinOp(op=op) if type(op) in SUMS:
            yield (
                f"{type(op).__name__} becomes {SUMS[type(op)].__name__}",
                _with(node, op=SUMS[type(op)]()),
            )
        case ast.Constant(value=bool() as value):
            yield f"{value} becomes {not value}", ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield f"{value} becomes {value + 1}", ast.Constant(value + 1)
        case ast.Call(func=ast.Name(id=name)) if name in TWINS:
            yield (
                f"{name} becomes {TWINS[name]}",
                _with(node, func=ast.Name(TWINS[name], ast.Load())),
            )
        case ast.Call(keywords=[_, *_]):
            for each in node.keywords:
                rest = [other for other in node.keywords if other is not each]
                yield f"without {each.arg}", _with(node, keywords=rest)
        case ast.JoinedStr(values=[_, _, *_]):
            for each in node.values:
                if isinstance(each, ast.FormattedValue):
                    rest = [other for other in node.values if other is not each]
                    yield f"without {ast.unparse(each.value)}", ast.JoinedStr(rest)
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            yield "condition negated", _with(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield "returns None", ast.Return(ast.Constant(None))
        case (
            ast.Expr(value=ast.Call() | ast.Await()) | ast.Raise() | ast.AugAssign() | ast.Delete()
        ):
            yield "line taken away", None
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "line taken away", None


def _with(node: Any, **fields: Any) -> Any:
    made = copy.copy(node)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def _is_talk(node: ast.AST) -> bool:
    """Logs, and the words of faults: what they say is no rule."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="log" | "_log"))):
            return True
        case ast.Expr(value=ast.Call() as call):
            return _is_talk(call)
        case ast.Assert() | ast.arg() | ast.AnnAssign(value=None):
            return True
        case ast.keyword(arg="hint" | "message") | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    return False


def mutants_of(module: str) -> list[Mutant]:
    """Every change of a module, in the order of the file."""
    text = (ROOT / module).read_text(encoding="utf-8")
    tree, lines = ast.parse(text), text.splitlines()
    found: list[Mutant] = []

    def put(holder: ast.AST, name: str, at: int | None, value: ast.AST | None) -> None:
        place: Any = getattr(holder, name)
        if at is None:
            setattr(holder, name, value)
        else:
            place[at] = ast.Pass() if value is None else value

    def visit(node: ast.AST, where: str, is_told: bool) -> None:
        for name, held in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "bases", "type_params"):
                continue
            listed = held if isinstance(held, list) else [held]
            for at, child in enumerate(listed):
                if not isinstance(child, ast.AST) or _is_talk(child):
                    continue
                inside = where
                if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    inside = f"{where}.{child.name}".strip(".")
                is_line = isinstance(child, ast.Raise) or not is_told
                for words, other in changes(child) if is_line else ():
                    place = at if isinstance(held, list) else None
                    put(node, name, place, other)
                    line = " ".join(lines[getattr(child, "lineno", 1) - 1].split())
                    changed = ast.unparse(ast.fix_missing_locations(tree))
                    put(node, name, place, child)
                    same = sum(
                        (each.where, each.line, each.change) == (inside, line, words)
                        for each in found
                    )
                    found.append(Mutant(module, inside, line, words, same, changed))
                visit(child, inside, is_told or isinstance(child, ast.Raise))

    visit(tree, "", False)
    return found


class _Swapped(SourceFileLoader):
    """Loads a module from a text in memory."""

    text = ""

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.text, self.get_filename(fullname), "exec")


class _Finder(MetaPathFinder):
    """Puts a mutant in the place of its module."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self._name = "gridtravel." + mutant.module.removesuffix(".py").replace("/", ".")

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        file = str(ROOT / "gridtravel" / self._mutant.module)
        loader = _Swapped(fullname, file)
        loader.text = self._mutant.source
        return spec_from_file_location(fullname, file, loader=loader)


def _tests_pass(tests: list[str], mutant: Mutant | None) -> int:
    """In a process of its own: the exit code of pytest."""
    import pytest

    devnull = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(devnull, number)
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    if mutant is not None:
        sys.meta_path.insert(0, _Finder(mutant))
    return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]))


@dataclass
class _Trial:
    """One mutant, or the code as it is, on its way through its tests."""

    mutant: Mutant | None
    process: int
    begun: float
    limit_s: float
    is_killed: bool = False

    def passed(self) -> bool | None:
        """Whether all tests passed; ``None``: not known yet."""
        done, status = os.waitpid(self.process, os.WNOHANG)
        if done:
            return not self.is_killed and os.waitstatus_to_exitcode(status) == 0
        if not self.is_killed and time.monotonic() > self.begun + self.limit_s:
            self.is_killed = True
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process, signal.SIGKILL)
        return None


def _begin(tests: list[str], mutant: Mutant | None, limit_s: float) -> _Trial:
    process = os.fork()
    if process == 0:
        code = 70
        with contextlib.suppress(BaseException):
            os.setpgid(0, 0)
            code = _tests_pass(tests, mutant)
        os._exit(code)
    with contextlib.suppress(OSError):
        os.setpgid(process, process)  # whoever comes first
    return _Trial(mutant, process, time.monotonic(), limit_s)


def _baseline_s(tests: list[str]) -> float:
    trial = _begin(tests, None, 3600)
    while (passed := trial.passed()) is None:
        time.sleep(0.05)
    if not passed:
        sys.exit(f"mutants: without any change these tests fail: {' '.join(tests)}")
    return time.monotonic() - trial.begun


def survivors(module: str, tests: list[str]) -> tuple[int, list[Mutant]]:
    """How many mutants of a module there are, and those that no test noticed."""
    waiting = mutants_of(module)
    count, limit_s = len(waiting), max(LIMIT_LEAST_S, LIMIT_FACTOR * _baseline_s(tests))
    running: list[_Trial] = []
    alive: list[Mutant] = []
    while waiting or running:
        while waiting and len(running) < PROCESSES:
            running.append(_begin(tests, waiting.pop(0), limit_s))
        time.sleep(0.02)
        for trial in list(running):
            if (passed := trial.passed()) is not None:
                running.remove(trial)
                if passed and trial.mutant is not None:
                    alive.append(trial.mutant)
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
        if words and not any(word in module or word in target["group"] for word in words):
            continue
        begun = time.monotonic()
        count, alive = survivors(module, target["tests"])
        names = {each.name for each in alive}
        unexplained = [each for each in alive if each.name not in explained]
        stale = [name for name in explained if name[0] == module and name not in names]
        is_bad = is_bad or bool(unexplained or stale)
        minutes = (time.monotonic() - begun) / 60
        print(f"{module}: {count} mutants, {count - len(alive)} noticed,"
              f" {len(alive) - len(unexplained)} explained, {minutes:.1f} min", flush=True)  # fmt: skip
        for each in unexplained:
            print(f"  lives: {each.where or 'the module'}: {each.change}\n         {each.line}")
        for _, where, line, change in stale:
            print(f"  explained and noticed, or no more there: {where}: {change}\n         {line}")
    return int(is_bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

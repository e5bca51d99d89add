"""What CONTRIBUTING.md promises about the checkout as a whole and no other tool checks."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.shared_data import CHECKOUT

FUNCTION_LINES_MAX = 80  # the house says about 70; its docstring does not count
NEVER_PACKAGES = ("bench", "deploy", "docs", "proto", "tests", "tools")
# The noun of the papers; the library's profiler of that name is not used here.
SHARED_NAMES = frozenset({"__init__", "__main__", "profile"})
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES: tuple[str, ...] = tuple(PROJECT["tool"]["setuptools"]["packages"])
TOP_PACKAGES = tuple(sorted({name.partition(".")[0] for name in PACKAGES}))
FOLDERS = tuple(sorted({name.split(".")[1] for name in PACKAGES if name.startswith("gridtravel.")}))
"""The folders of the checkout that are imported below gridtravel."""


def sources(*folders: str) -> Iterator[Path]:
    """The Python files of the given top-level folders, in order."""
    for folder in folders:
        yield from sorted((CHECKOUT / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    """A path as a reader of the message knows it."""
    return str(path.relative_to(CHECKOUT))


def test_functions_fit_on_a_screen() -> None:
    """A function is about 70 lines at most, not counting its docstring."""
    too_long: dict[str, int] = {}
    for path in sources(*FOLDERS, "tools"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            lines = body[-1].end_lineno - body[0].lineno + 1 if body and body[-1].end_lineno else 0
            if lines > FUNCTION_LINES_MAX:
                too_long[f"{name_of(path)}:{node.name}"] = lines
    assert too_long == {}


def test_every_package_is_listed_for_installation() -> None:
    """An unlisted folder works in the checkout and is missing once installed, so all are listed."""
    found = {
        name_of(path.parent).replace("/", ".")
        for path in sources(*(each.name for each in CHECKOUT.iterdir() if is_visible(each)))
        if path.name == "__init__.py"
    }
    outside = {"gridtravel", "gridwire", "gridwire.v1"}
    inside = {
        f"gridtravel.{name}" for name in found - outside if not name.startswith("gridtravel.")
    }
    assert sorted(inside | outside) == sorted(PACKAGES)


def test_every_folder_is_linked_below_the_one_name() -> None:
    """gridtravel/ holds a relative link to each folder, as git keeps it, and nothing else."""
    links = {each.name: each for each in (CHECKOUT / "gridtravel").iterdir() if each.is_symlink()}
    assert sorted(links) == sorted(FOLDERS)
    assert [name for name, link in links.items() if str(link.readlink()) != f"../{name}"] == []


def is_visible(path: Path) -> bool:
    """A folder that belongs to the checkout and not to a tool or a build."""
    return path.is_dir() and not path.name.startswith(".") and path.name not in {"build", "dist"}


def test_every_module_lies_in_a_package() -> None:
    """A folder of modules without `__init__.py` would be a namespace package by accident."""
    bare = {
        name_of(path.parent)
        for path in sources(*FOLDERS, "gridwire")
        if not (path.parent / "__init__.py").exists()
    }
    assert sorted(bare) == []


@pytest.mark.parametrize("folder", NEVER_PACKAGES)
def test_folders_that_are_no_packages_stay_so(folder: str) -> None:
    """`proto` and `tests` are also names of other people's packages and must never shadow them."""
    assert [name_of(path) for path in sources(folder) if path.name == "__init__.py"] == []


def test_no_module_is_named_like_one_of_the_standard_library() -> None:
    """`calendar.py` or `queue.py` would be imported instead of the library's, by some runs."""
    clashes = [
        name_of(path)
        for path in sources(*FOLDERS, "tests", "tools")
        if path.stem in sys.stdlib_module_names and path.stem not in SHARED_NAMES
    ]
    assert clashes == []


def test_the_domain_imports_the_standard_library_alone() -> None:
    """Whatever is not of the standard library is refused, also what import-linter does not list."""
    foreign: set[str] = set()
    for path in sources("gridcore"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                continue
            foreign |= {
                f"{name_of(path)}: {name}"
                for name in names
                if not name.startswith("gridtravel.gridcore")
                and name.partition(".")[0] not in sys.stdlib_module_names
            }
    assert sorted(foreign) == []


def test_import_contracts_cover_every_package() -> None:
    """A new top-level package takes its place in the order of layers before it is used."""
    linter = PROJECT["tool"]["importlinter"]
    assert sorted(linter["root_packages"]) == sorted(TOP_PACKAGES)
    layered = [
        name.strip()
        for contract in linter["contracts"]
        if contract["type"] == "layers"
        for layer in contract["layers"]
        for name in layer.split("|")
    ]
    assert sorted(layered) == [f"gridtravel.{folder}" for folder in FOLDERS]


def test_lock_file_pins_every_declared_dependency_by_hash() -> None:
    """`make setup` installs what was reviewed: each requirement is there, exact, with hashes."""
    lock = (CHECKOUT / "requirements.lock").read_text(encoding="utf-8")
    blocks = re.split(r"\n(?=[a-z0-9])", lock)
    pinned = {
        match[1]
        for block in blocks
        if (match := re.match(r"([a-z0-9-]+)==\S+.*--hash=", block, re.S))
    }
    project = PROJECT["project"]
    declared = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        declared += extra
    wanted = {re.split(r"[><=~! ;\[]", each)[0].lower() for each in declared}
    assert sorted(wanted - pinned) == []


def test_lock_file_names_no_host_and_no_local_path() -> None:
    """The lock file works for whoever clones the repository, with their own package index."""
    lock = (CHECKOUT / "requirements.lock").read_text(encoding="utf-8")
    assert re.findall(r"https?:\S*|file:\S*|--(?:extra-)?index-url|--find-links", lock) == []


def test_documents_name_only_commands_that_exist() -> None:
    """Every `make word` of README and CONTRIBUTING is a target of the Makefile."""
    makefile = (CHECKOUT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.M))
    named: set[str] = set()
    for document in ("README.md", "CONTRIBUTING.md"):
        text = (CHECKOUT / document).read_text(encoding="utf-8")
        named |= set(re.findall(r"(?:`|^\s{4}|^)make ([a-z][a-z-]*)", text, re.M))
    assert sorted(named - targets) == []
    assert {"setup", "demo", "test"} <= targets


def test_make_help_shows_every_command_that_documents_name() -> None:
    """A command that CONTRIBUTING.md recommends is also found by `make help`."""
    makefile = (CHECKOUT / "Makefile").read_text(encoding="utf-8")
    shown = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.M))
    text = (CHECKOUT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert sorted(set(re.findall(r"`make ([a-z][a-z-]*)", text)) - shown) == []

"""What CONTRIBUTING.md promises about the checkout as a whole and no other tool checks."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shared_data import CHECKOUT

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 80  # the house says about 70; its docstring does not count
TEST_KINDS = ("contract", "golden", "integration", "paper", "property", "sim", "unit")
NEVER_PACKAGES = ("bench", "deploy", "docs", "proto", "tests", "tools")
# The noun of the papers; the library's profiler of that name is not used here.
SHARED_NAMES = frozenset({"__init__", "__main__", "profile"})
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES: tuple[str, ...] = tuple(PROJECT["tool"]["setuptools"]["packages"])
TOP_PACKAGES = tuple(sorted({name.partition(".")[0] for name in PACKAGES}))
WRITTEN_PACKAGES = tuple(name for name in TOP_PACKAGES if name != "gridwire")


def sources(*folders: str) -> Iterator[Path]:
    """The Python files of the given top-level folders, in order."""
    for folder in folders:
        yield from sorted((CHECKOUT / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    """A path as a reader of the message knows it."""
    return str(path.relative_to(CHECKOUT))


def test_no_file_grows_into_the_place_where_everything_is() -> None:
    """A written file has at most 400 lines."""
    too_long = {
        name_of(path): lines
        for path in sources(*WRITTEN_PACKAGES, "tests", "tools", "bench")
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > FILE_LINES_MAX
    }
    assert too_long == {}


def test_functions_fit_on_a_screen() -> None:
    """A function is about 70 lines at most, not counting its docstring."""
    too_long: dict[str, int] = {}
    for path in sources(*WRITTEN_PACKAGES, "tools"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            lines = body[-1].end_lineno - body[0].lineno + 1 if body and body[-1].end_lineno else 0
            if lines > FUNCTION_LINES_MAX:
                too_long[f"{name_of(path)}:{node.name}"] = lines
    assert too_long == {}


def test_promised_top_level_folders_exist() -> None:
    """The layout that users and operators are told about is there."""
    promised = ("proto", "agents", "manager", "travel_agent", "local_sched", "deploy", "tests")
    assert [folder for folder in promised if not (CHECKOUT / folder).is_dir()] == []


def test_every_package_is_listed_for_installation() -> None:
    """An unlisted folder works in the checkout and is missing once installed, so all are listed."""
    found = {
        name_of(path.parent).replace("/", ".")
        for path in sources(*(each.name for each in CHECKOUT.iterdir() if is_visible(each)))
        if path.name == "__init__.py"
    }
    assert sorted(found) == sorted(PACKAGES)


def is_visible(path: Path) -> bool:
    """A folder that belongs to the checkout and not to a tool or a build."""
    return path.is_dir() and not path.name.startswith(".") and path.name not in {"build", "dist"}


def test_every_module_lies_in_a_package() -> None:
    """A folder of modules without `__init__.py` would be a namespace package by accident."""
    bare = {
        name_of(path.parent)
        for path in sources(*TOP_PACKAGES)
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
        for path in sources(*WRITTEN_PACKAGES, "tests", "tools")
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
            roots = {name.partition(".")[0] for name in names}
            foreign |= {
                f"{name_of(path)}: {root}"
                for root in roots
                if root != "gridcore" and root not in sys.stdlib_module_names
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
    assert sorted(layered) == sorted(WRITTEN_PACKAGES)


def test_test_files_have_unique_names_and_a_kind() -> None:
    """A report names a test by its file; and the folder says how much the test may cost."""
    files = list((CHECKOUT / "tests").rglob("test_*.py"))
    names = Counter(path.name for path in files)
    assert [name for name, count in sorted(names.items()) if count > 1] == []
    parents = {path.relative_to(CHECKOUT / "tests").parts[0] for path in files}
    assert sorted(parents - set(TEST_KINDS)) == []


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


def test_change_notes_have_names_a_release_can_sort() -> None:
    """`changelog.d/` holds `<words>.<kind>.md` and its own README, and no empty note."""
    pattern = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\.(added|changed|fixed|removed)\.md")
    notes = [path for path in (CHECKOUT / "changelog.d").iterdir() if path.name != "README.md"]
    assert sorted(path.name for path in notes if not pattern.fullmatch(path.name)) == []
    assert [path.name for path in notes if not path.read_text(encoding="utf-8").strip()] == []


def test_decisions_are_numbered_once_and_say_their_status() -> None:
    """A decision is found by its number and tells whether it still holds."""
    pages = sorted((CHECKOUT / "docs" / "decisions").glob("*.md"))
    numbers = [page.name[:4] for page in pages]
    assert numbers == [f"{index:04}" for index in range(len(pages))]
    for page in pages[1:]:
        text = page.read_text(encoding="utf-8")
        assert text.startswith(f"# {page.name[:4]}: "), page.name
        assert re.search(r"^Status: (proposed|accepted|superseded by \d{4})$", text, re.M), (
            page.name
        )

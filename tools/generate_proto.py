"""Generate the package `gridwire` from `proto/`, or check that the committed package is fresh.

The generated code is committed, so that installing needs no compiler. `--check` generates into a
temporary folder and compares, byte for byte; the compiler's version is fixed by requirements.lock.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

CHECKOUT = Path(__file__).resolve().parent.parent
SOURCES = CHECKOUT / "proto"
PACKAGE = "gridwire"
MARKER = (
    f'"""Generated protobuf code; written by `make proto` from `proto/{PACKAGE}/`, '
    'never by hand."""\n'
)


def generate(target: Path) -> None:
    """Write the whole package below `target`; exit with protoc's own message on a bad source."""
    sources = sorted(str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.proto"))
    if not sources:
        sys.exit(f"no .proto file below {SOURCES}")
    status = protoc.main(
        [
            "protoc",
            f"--proto_path={SOURCES}",
            f"--proto_path={files('grpc_tools') / '_proto'}",
            f"--python_out={target}",
            f"--pyi_out={target}",
            f"--grpc_python_out={target}",
            *sources,
        ]
    )
    if status != 0:
        sys.exit(status)
    folders = {folder for source in sources for folder in Path(source).parents}
    for folder in sorted(folders - {Path()}):
        (target / folder / "__init__.py").write_text(MARKER, encoding="utf-8")


def contents(root: Path) -> dict[str, bytes]:
    """Read every file of the package below `root`, by its path from `root`."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted((root / PACKAGE).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def main() -> None:
    """Rewrite the package, or with `--check` exit 1 naming each file that is not fresh."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, and change nothing")
    check_only: bool = parser.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        wanted = contents(Path(folder))
    committed = contents(CHECKOUT)
    stale = sorted(
        name for name in wanted.keys() | committed.keys() if wanted.get(name) != committed.get(name)
    )
    if check_only:
        for name in stale:
            print(f"{name}: not what proto/ says; run `make proto` and commit the result")
        sys.exit(1 if stale else 0)
    for name in stale:
        path = CHECKOUT / name
        if name in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(wanted[name])
        else:
            path.unlink()
        print(f"{name}: {'written' if name in wanted else 'removed'}")


if __name__ == "__main__":
    main()

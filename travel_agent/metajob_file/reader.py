"""Metajob files: the paper's INI as printed, TOML and JSON, all read into the same value.

A file is foreign matter: its size is bounded, it is never executed, and whatever is wrong with it
ends in exactly one ``InputError`` that names the file, the line where one can be known, and the way
out. Nothing else is ever raised.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

from gridtravel.gridcore.timing.instants import Instant
from gridtravel.gridio.file_faults import located
from gridtravel.travel_agent.metajob_file.builder import MetajobBuilder, MetajobReading
from gridtravel.travel_agent.metajob_file.faults import validated
from gridtravel.travel_agent.metajob_file.ini import read_ini
from gridtravel.travel_agent.metajob_file.json_form import read_json
from gridtravel.travel_agent.metajob_file.places import RawMetajob
from gridtravel.travel_agent.metajob_file.toml import read_toml

FILE_BYTES_MAX: Final = 1024 * 1024
"""A metajob of 256 machines with long environments is a tenth of this."""

_READERS: Final = {"ini": read_ini, "toml": read_toml, "json": read_json}
_SUFFIXES: Final = {".toml": "toml", ".json": "json", ".ini": "ini"}
_PAPER_MARK: Final = re.compile(
    r"^[ \t]*(?:\[[ \t]*metajob[ \t]*\][ \t]*$|machines_dict_string[ \t]*[=:])",
    re.IGNORECASE | re.MULTILINE,
)
_NOT_TEXT: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


def read_metajob_file(
    path: Path, *, now: Instant, zone: ZoneInfo, may_be_past: bool = False
) -> MetajobReading:
    """The metajob in the file at ``path``; ``InputError`` when there is none.

    ``zone`` holds for times that name none, unless the file has its own. Relative paths of files to
    stage in begin at the folder of the file. ``may_be_past`` reads what was booked long ago; a new
    trip needs a window that is still possible.
    """
    source = path.name or str(path)
    try:
        if not path.is_file():
            kind = "is not a file" if path.exists() else "does not exist"
            raise located(
                source,
                None,
                f"{str(path)!r} {kind}",
                hint="`gur init` writes an example to begin with",
            )
        with path.open("rb") as stream:
            content = stream.read(FILE_BYTES_MAX + 1)
        folder = path.resolve().parent
    except (OSError, ValueError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or "no usable path"
        raise located(
            source, None, f"cannot be read: {reason}", hint="check its path and rights"
        ) from None
    return parse_metajob(
        content,
        now=now,
        zone=zone,
        source=source,
        form=_SUFFIXES.get(path.suffix.lower()),
        base_folder=folder,
        may_be_past=may_be_past,
    )


def parse_metajob(
    content: bytes | str,
    *,
    now: Instant,
    zone: ZoneInfo,
    source: str = "metajob",
    form: str | None = None,
    base_folder: Path | None = None,
    may_be_past: bool = False,
) -> MetajobReading:
    """The metajob in ``content``; see ``read_metajob_file``.

    ``form`` is ``ini``, ``toml`` or ``json``; ``None`` looks at the content. ``source`` is what
    messages call it, and the trip's name where the content gives none.
    """
    text = _decoded(content, source)
    raw: RawMetajob = _READERS[form or form_of(text)](text, source)
    model = validated(raw.document, raw.places)
    builder = MetajobBuilder(
        places=raw.places,
        now=now,
        zone=zone,
        default_name=_name_from(source),
        base_folder=base_folder,
        may_be_past=may_be_past,
    )
    return builder.build(model)


def form_of(text: str) -> str:
    """``json`` for an object, ``ini`` for a file with the paper's section or dictionary, else
    ``toml``."""
    for row in text.split("\n"):
        content = row.strip()
        if content.startswith("{"):
            return "json"
        if content and content[0] not in "#;":
            break
    return "ini" if _PAPER_MARK.search(text) else "toml"


def _decoded(content: bytes | str, source: str) -> str:
    """The text, line ends made uniform; refuses what is too large or no text."""
    size = len(content)
    if size > FILE_BYTES_MAX:
        raise located(
            source,
            None,
            "is larger than 1 MiB",
            hint="a metajob names files to stage; it does not hold them",
        )
    if isinstance(content, str):
        decoded = content
    else:
        try:
            decoded = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            bad_line = content.count(b"\n", 0, error.start) + 1
            raise located(
                source, bad_line, "is not text in UTF-8", hint="save it as UTF-8"
            ) from None
    text = decoded.replace("\r\n", "\n").replace("\r", "\n")
    if junk := _NOT_TEXT.search(text):
        line = text.count("\n", 0, junk.start()) + 1
        raise located(source, line, "holds control characters; this is not a text file")
    if not text.strip():
        raise located(source, None, "is empty", hint="`gur init` writes an example to begin with")
    return text


def _name_from(source: str) -> str:
    """A usable trip name out of a file's name."""
    stem = Path(source).stem if source else ""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._")[:64]
    return name or "trip"

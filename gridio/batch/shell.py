"""One question to a far end: a shell's text made of fixed functions and quoted values, and its
answer in parts.

The text goes to a shell's standard input and is one compound command, so that a connection that
breaks in the middle of it executes nothing. It ignores a hang-up: what was begun is finished. The
answer begins with a marker, because a login's start-up files may print something first, and carries
the far end's time.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from gridtravel.gridcore.errors import NotAuthorisedError, UnavailableError
from gridtravel.gridio.batch.options import BatchOptions
from gridtravel.gridio.batch.running import CommandRunner, Finished
from gridtravel.gridio.sites.connections import ClockSkew, SkewMeter
from gridtravel.gridio.system.clock import Clock

ANSWER_WITHIN_S: Final = 60.0
"""A batch system under load takes seconds for a command, and one question is several."""
MISSING_CODE: Final = 127
DEFAULT_ACCOUNT: Final = "default"
"""Account of a request that names none: the batch system's own choice."""

_MARKER: Final = re.compile(r"^grid-batch 1 ([0-9]{1,12})(\.[0-9]{1,9})? (\S+)$", re.MULTILINE)
_PART: Final = re.compile(r"^grid-part (\S+)\n", re.MULTILINE)
_TIME_ROUNDING_S: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the far end said."""

    at: float
    """The far end's clock when the shell began."""
    user: str
    """The account."""
    parts: dict[str, str]
    """By name; ``""`` is what came before the first one."""

    @property
    def now(self) -> int:
        """The far end's whole second."""
        return int(self.at)

    def lines(self, part: str) -> list[str]:
        """The lines of a part that are not empty."""
        return [line for line in self.parts.get(part, "").splitlines() if line]


class Shell:
    """Asks one batch system's far end."""

    def __init__(
        self, runner: CommandRunner, options: BatchOptions, clock: Clock, *, site: str
    ) -> None:
        self.runner = runner
        self.options = options
        self._clock = clock
        self._site = site
        self._meter = SkewMeter()
        self._has_answered = False

    async def ask(self, body: str, *words: str, account: str = DEFAULT_ACCOUNT) -> Answer:
        """Have ``body``, a text of ours, executed with ``words`` as its parameters.

        ``UnavailableError``: the far end has not the commands, or they failed, in their own words.
        """
        sent_at = self._clock.now_precise()
        text = self._compose(body, words, account)
        finished = await self.runner.run(text, within_s=ANSWER_WITHIN_S)
        answer = self._read(finished)
        self._has_answered = True
        self._measure(sent_at, answer.at)
        return answer

    async def begin(self) -> None:
        """Have the folders made, unless something was asked before."""
        if not self._has_answered:
            await self.ask("")

    def skew_s(self) -> ClockSkew | None:
        """The far end's clock minus ours, by what it said of the time."""
        return self._meter.estimate(self._clock.now_precise())

    def _compose(self, body: str, words: Sequence[str], account: str) -> bytes:
        options = self.options
        settings = {
            "b_pe": options.parallel_environment,
            "b_queue": options.queue,
            "b_account": "" if account == DEFAULT_ACCOUNT else account,
        }
        exports = {**options.environment, "TZ": "UTC", "LC_ALL": "C"}
        lines = [
            "{",
            *(f"export {name}={shlex.quote(value)}" for name, value in exports.items()),
            *(f"{name}={shlex.quote(value)}" for name, value in settings.items()),
            shell_text("common"),
            shell_text(options.system),
            f"b_folder={shlex.quote(options.folder)}",
            _BEGIN,
            shlex.join(["set", "--", *words]),
            body,
            "exit 0",
            "} < /dev/null",
            "",
        ]
        return "\n".join(lines).encode()

    def _read(self, finished: Finished) -> Answer:
        out = finished.out.decode(errors="replace")
        said = " ".join(finished.err.decode(errors="replace").split())[-300:]
        marker = _MARKER.search(out)
        if finished.code == MISSING_CODE:
            raise UnavailableError(
                f"{self._where()} has no {said or 'batch commands'}",
                hint="set PATH in the machine's batch_environment (docs/batch-sites.md)",
            )
        if marker is None:
            first = " ".join(out.split())[:120] or said or "nothing"
            raise NotAuthorisedError(
                f"{self._where()} does not run commands for us; it says: {first}",
                hint="the login needs an ordinary shell; a key with a forced command will not do",
            )
        if finished.code != 0:
            raise UnavailableError(f"{self._site}: {said or f'its shell ended {finished.code}'}")
        pieces = _PART.split(out[marker.end() :])
        parts = dict(zip(["", *pieces[1::2]], pieces[::2], strict=True))
        at = float(marker[1] + (marker[2] or ""))
        return Answer(at=at, user=marker[3], parts=parts)

    def _measure(self, sent_at: float, site_time: float) -> None:
        rounding_s = _TIME_ROUNDING_S if site_time.is_integer() else 0.0
        self._meter.measure(
            sent_at=sent_at - rounding_s,
            received_at=self._clock.now_precise() + rounding_s,
            site_time=site_time + rounding_s,
        )

    def _where(self) -> str:
        return f"{self._site} ({self.runner.endpoint})"


@cache
def shell_text(name: str) -> str:
    """The functions of ``name``.sh, without the comments."""
    text = files("gridtravel.gridio.batch").joinpath(f"{name}.sh").read_text(encoding="utf-8")
    return "\n".join(line for line in text.splitlines() if line and not line.startswith("#"))


_BEGIN: Final = r"""
trap '' HUP PIPE
umask 077
b_user=$(id -un)
b_now=$(date +%s.%N)
case $b_now in *N) b_now=$(date +%s) ;; esac
printf '\ngrid-batch 1 %s %s\n' "$b_now" "$b_user"
for b_program in $b_programs; do
    command -v "$b_program" > /dev/null 2>&1 || { echo "$b_program in its PATH" >&2; exit 127; }
done
mkdir -p "$b_folder/book" "$b_folder/jobs" "$b_folder/areas" && cd "$b_folder" \
    || b_fail "cannot make $b_folder in $PWD"
"""
"""Said before every body: who, when, and in which folder."""

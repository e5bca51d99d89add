"""Every verb of the protocol with example values: what is asked of a port, and what it answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gridtravel.gridcore.booking.reservations import Availability, Decline, DeclineRule, Offer
from gridtravel.gridcore.booking.summaries import CalendarSummary, CalendarVersion, SummaryDelta
from gridtravel.gridcore.booking.trade import TradeAccount
from gridtravel.gridcore.callers import Caller, Role
from gridtravel.gridcore.errors import (
    ConflictError,
    DeadlineError,
    GridError,
    InputError,
    NotAuthorisedError,
    NotFoundError,
    UnavailableError,
)
from gridtravel.gridcore.jobs.job import JobState
from gridtravel.gridcore.ports import ClassDescription, FileStatus, OutputChunk, SiteDescription
from gridtravel.gridcore.trips.manifests import Manifest
from gridtravel.gridcore.trips.trip_consensus import (
    AcceptorAnswer,
    Ballot,
    Outcome,
    Phase,
    Vote,
    VoteQuestion,
)
from gridtravel.gridio.rpc.inproc import InprocSite
from gridtravel.gridio.sites.connections import IdentityNotProvenError
from gridtravel.gridio.system.clock import ManualClock
from tests.oracles import example_values as some
from tests.oracles.example_values import NOW

SHA256: Final = "0123456789abcdef" * 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One question and its answer."""

    what: str
    verb: str
    """The port's method."""
    words: tuple[Any, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)
    answer: Any = None
    """Of a stream: all of it, as a list."""


DESCRIPTION: Final = SiteDescription(
    site="north",
    is_manager=True,
    classes=(
        ClassDescription(name="thin", nodes=6, features=("gpu", "ib")),
        ClassDescription(name="fat", nodes=2),
    ),
    time_zone="Europe/London",
    time_precise=NOW + 0.125,
    lead_s=7,
    hold_ttl_max_s=120,
    horizon_s=7_776_000,
    millicredits_per_node_hour=36_000,
    software="gridtravel 0.1.0",
    login="ada",
    children=("alpha", "beta"),
    trade=(
        TradeAccount(member="alpha", lent_node_s=60, borrowed_node_s=30, local_node_s=10),
        TradeAccount(member="beta", lent_node_s=30, borrowed_node_s=60),
    ),
)
LEAST_DESCRIPTION: Final = SiteDescription(
    site="alpha",
    is_manager=False,
    classes=(),
    time_zone="",
    time_precise=0.0,
    lead_s=0,
    hold_ttl_max_s=0,
    horizon_s=0,
    millicredits_per_node_hour=0,
    software="",
    login="",
)
AVAILABILITY: Final = Availability(
    offers=(
        Offer(
            start=NOW + 600,
            start_until=NOW + 1_200,
            nodes=3,
            resource_class="thin",
            unit_price_millicredits=18_000,
            quote="quote1.e30.c2lnbmVk",
            quote_expires_at=NOW + 900,
        ),
        Offer(
            start=NOW + 1_800,
            start_until=NOW + 1_801,
            nodes=1,
            resource_class="",
            unit_price_millicredits=0,
        ),
    ),
    version=CalendarVersion("epoch-1", 42),
    known_until=NOW + 7_200,
)
DELTA: Final = SummaryDelta(
    site="alpha",
    since=CalendarVersion("epoch-1", 41),
    version=CalendarVersion("epoch-1", 42),
    as_of=NOW,
    classes=some.SUMMARY.classes,
)
EMPTY_SUMMARY: Final = CalendarSummary(site="", version=CalendarVersion("", 0), as_of=0, classes=())
FILE: Final = FileStatus(path="out/field.dat", size_bytes=7, mode=0o640, sha256=SHA256)
FOLDER: Final = FileStatus(path="out", size_bytes=0, is_folder=True, mode=0o700)
CHUNKS: Final = (
    OutputChunk(offset=0, content=b"\0\x01\xff"),
    OutputChunk(offset=3, content=b"more"),
)
JSON_VALUE: Final = {"as_of": NOW, "rows": [{"job": "17.alpha", "share": 0.5}], "none": None}

CASES: Final = (
    Case(what="a manager", verb="describe", answer=DESCRIPTION),
    Case(what="as little as may be", verb="describe", answer=LEAST_DESCRIPTION),
    Case(what="its card", verb="describe", answer=replace(DESCRIPTION, card="card.of.north")),
    Case(
        what="three windows",
        verb="inquire",
        words=([some.REQUEST, some.LEAST_REQUEST, some.LEAST_REQUEST],),
        answer=[
            AVAILABILITY,
            some.DECLINE,
            Availability(offers=(), version=CalendarVersion("", 0), known_until=0),
        ],
    ),
    Case(
        what="every rule of a refusal",
        verb="inquire",
        words=([some.LEAST_REQUEST] * len(DeclineRule),),
        answer=[Decline(rule=rule, message="why") for rule in DeclineRule],
    ),
    Case(
        what="a hold",
        verb="reserve",
        words=(some.REQUEST,),
        named={"ttl_s": 30, "job": some.HELD_JOB},
        answer=some.RESERVATION,
    ),
    Case(
        what="a refusal",
        verb="reserve",
        words=(some.LEAST_REQUEST,),
        named={"ttl_s": 0, "job": None},
        answer=some.DECLINE,
    ),
    Case(
        what="a leg that begins with the others",
        verb="reserve",
        words=(some.LEG_TOGETHER.request,),
        named={"ttl_s": 30, "job": None},
        answer=some.LEG_TOGETHER,
    ),
    Case(
        what="granted",
        verb="commit",
        words=("alpha.7",),
        named={"manifest": some.MANIFEST},
        answer=some.LEAST_RESERVATION,
    ),
    Case(
        what="refused",
        verb="commit",
        words=("alpha.7",),
        named={"manifest": Manifest()},
        answer=some.LEAST_DECLINE,
    ),
    Case(what="by reservation", verb="release", words=("alpha.7",)),
    Case(what="by request", verb="release_request", words=("run-1:ocean",)),
    Case(
        what="another form",
        verb="amend",
        words=("alpha.7", some.REQUEST),
        answer=some.LEAST_RESERVATION,
    ),
    Case(
        what="a promise",
        verb="vote",
        words=(
            VoteQuestion(
                instance=f"{some.TRIP_ID}/3",
                phase=Phase.PREPARE,
                ballot=Ballot(4, "beta:run-7"),
            ),
        ),
        answer=AcceptorAnswer(
            acceptor="alpha",
            is_granted=True,
            promised=Ballot(4, "beta:run-7"),
            vote=Vote(ballot=Ballot(3, "alpha:run-2"), outcome=Outcome.ABORT),
        ),
    ),
    Case(
        what="the traveller's first",
        verb="vote",
        words=(
            VoteQuestion(
                instance=f"{some.TRIP_ID}/1",
                phase=Phase.ACCEPT,
                outcome=Outcome.COMMIT,
                manifest=some.MANIFEST,
            ),
        ),
        answer=AcceptorAnswer(
            acceptor="alpha",
            is_granted=False,
            promised=Ballot(0),
            vote=Vote(ballot=Ballot(0), outcome=Outcome.COMMIT, manifest=some.MANIFEST),
        ),
    ),
    Case(
        what="an abort",
        verb="vote",
        words=(
            VoteQuestion(
                instance=f"{some.TRIP_ID}/1",
                phase=Phase.ACCEPT,
                ballot=Ballot(1, "beta:run-7"),
                outcome=Outcome.ABORT,
            ),
        ),
        answer=AcceptorAnswer(acceptor="", is_granted=True, promised=Ballot(1, "p"), vote=None),
    ),
    Case(
        what="what became of it",
        verb="vote",
        words=(VoteQuestion(instance=f"{some.TRIP_ID}/1", phase=Phase.LEARN),),
        answer=AcceptorAnswer(acceptor="gamma", is_granted=True, promised=Ballot(0), vote=None),
    ),
    Case(
        what="what became of several",
        verb="vote",
        words=(
            VoteQuestion(
                instance=f"{some.TRIP_ID}/1/ready/a",
                phase=Phase.LEARN,
                beside=(f"{some.TRIP_ID}/1/ready/b", f"{some.TRIP_ID}/1/ready/c"),
            ),
        ),
        answer=AcceptorAnswer(
            acceptor="gamma",
            is_granted=True,
            promised=Ballot(0),
            vote=None,
            beside=(
                AcceptorAnswer(
                    acceptor="gamma",
                    is_granted=True,
                    promised=Ballot(2, "beta:run-7"),
                    vote=Vote(ballot=Ballot(0), outcome=Outcome.COMMIT),
                ),
                AcceptorAnswer(acceptor="gamma", is_granted=True, promised=Ballot(0), vote=None),
            ),
        ),
    ),
    Case(
        what="to have it settled",
        verb="vote",
        words=(
            VoteQuestion(
                instance=some.VOTED_UNASKED.instance, phase=Phase.SETTLE, outcome=Outcome.ABORT
            ),
        ),
        answer=AcceptorAnswer(acceptor="beta", is_granted=True, promised=Ballot(0), vote=None),
    ),
    Case(what="news", verb="subscribe", answer=[some.SUMMARY, DELTA, EMPTY_SUMMARY]),
    Case(
        what="asked only",
        verb="set_reservation",
        words=(some.REQUEST,),
        named={"is_dry_run": True},
        answer=some.LEAST_RESERVATION,
    ),
    Case(
        what="refused",
        verb="set_reservation",
        words=(some.LEAST_REQUEST,),
        named={"is_dry_run": False},
        answer=some.DECLINE,
    ),
    Case(
        what="in every state",
        verb="reservations",
        named={"everybody": True},
        answer=list(some.in_every_state()),
    ),
    Case(what="none", verb="reservations", named={"everybody": False}, answer=[]),
    Case(what="two jobs", verb="bind", words=("alpha.7", ["17.alpha", "18.alpha"])),
    Case(what="no job", verb="unbind", words=("alpha.7", [])),
    Case(what="a reservation", verb="bind_job", words=("17.alpha", ["alpha.7"])),
    Case(what="a reservation", verb="unbind_job", words=("17.alpha", ["alpha.7"])),
    Case(what="a leg's job", verb="submit", words=(some.SPEC,), answer=some.JOB),
    Case(what="a copy", verb="submit", words=(some.RACING_SPEC,), answer=some.LEAST_JOB),
    Case(
        what="a copy that knows where the others are",
        verb="submit",
        words=(some.LATER_SPEC,),
        answer=some.LEAST_JOB,
    ),
    Case(
        what="with a deadline and a budget",
        verb="submit",
        words=(some.PRICED_SPEC,),
        answer=some.PRICED_JOB,
    ),
    Case(what="refused", verb="submit", words=(some.LEAST_SPEC,), answer=some.LEAST_DECLINE),
    Case(
        what="refused by its deadline",
        verb="submit",
        words=(some.PRICED_SPEC,),
        answer=some.TOO_SOON,
    ),
    Case(
        what="brought",
        verb="name_inputs",
        words=("alpha.7", (some.INPUT,)),
        answer=some.JOB,
    ),
    Case(what="a job", verb="cancel_job", words=("17.alpha",), answer=some.JOB),
    Case(
        what="in every state",
        verb="jobs",
        named={"job_ids": ["17.alpha", "18.alpha"], "everybody": True},
        answer=[replace(some.LEAST_JOB, state=state) for state in JobState],
    ),
    Case(what="none", verb="jobs", named={"job_ids": [], "everybody": False}, answer=[]),
    Case(
        what="two views", verb="watch_job", words=("17.alpha",), answer=[some.LEAST_JOB, some.JOB]
    ),
    Case(
        what="two pieces",
        verb="follow_output",
        words=("17.alpha", "stderr", 3),
        answer=list(CHUNKS),
    ),
    Case(what="why", verb="query", words=("why", {"job": "17.alpha"}), answer=JSON_VALUE),
    Case(
        what="a node",
        verb="order",
        words=("node-down", {"node": "thin-0", "jobs": "requeue"}),
        answer="\u00e9",
    ),
    Case(
        what="a folder",
        verb="list_files",
        words=("alpha.7", "out"),
        named={"with_checksums": True},
        answer=[FOLDER, FILE],
    ),
    Case(what="the rest", verb="get_file", words=("alpha.7", "out/a", 3), answer=list(CHUNKS)),
    Case(
        what="two pieces",
        verb="put_file",
        words=("alpha.7", "in/a", CHUNKS),
        named={"mode": 0o640, "sha256": SHA256},
        answer=FILE,
    ),
)

STREAMS: Final = ("subscribe", "watch_job", "follow_output", "get_file")

FAULTS: Final[tuple[GridError, ...]] = (
    GridError("of no family", hint="look again"),
    InputError("wrong words: \u00e9\n second line", hint="say it otherwise"),
    NotFoundError("not there", hint=""),
    NotAuthorisedError("not for you", hint=""),
    IdentityNotProvenError("who are you?", hint=""),
    UnavailableError("away"),
    DeadlineError("too late"),
    ConflictError("not now", hint=""),
    InputError("x" * 2_000, hint="y" * 500),
)


@dataclass(slots=True)
class ScriptedSite:
    """A site of one caller that answers as a case says, and remembers what was asked."""

    answer: Any = None
    fault: GridError | None = None
    asked: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)

    def calendar_port(self, caller: Caller) -> Any:
        """See ``SiteServices``."""
        return _ScriptedPort(self)

    def site_port(self, caller: Caller) -> Any:
        """See ``SiteServices``."""
        return _ScriptedPort(self)

    def connection(self) -> InprocSite:
        """A way to it through the codec."""
        caller = Caller(subject="/O=grid/OU=users/CN=ada", login="ada", role=Role.USER)
        return InprocSite(self, caller, through_codec=True, clock=ManualClock(NOW), name="alpha")


class _ScriptedPort:
    """Both ports."""

    def __init__(self, site: ScriptedSite) -> None:
        self._site = site

    def __getattr__(self, verb: str) -> Any:
        site = self._site

        async def unary(*words: Any, **named: Any) -> Any:
            site.asked.append((verb, await _read(words), named))
            if site.fault is not None:
                raise site.fault
            return site.answer

        async def stream(*words: Any, **named: Any) -> AsyncIterator[Any]:
            site.asked.append((verb, words, named))
            for each in site.answer:
                yield each

        return stream if verb in STREAMS else unary


async def _read(words: Sequence[Any]) -> tuple[Any, ...]:
    """With what comes piece by piece as a whole."""
    return tuple(
        [
            tuple([piece async for piece in each]) if hasattr(each, "__aiter__") else each
            for each in words
        ]
    )

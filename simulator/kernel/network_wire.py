"""One caller's connection to one party of a simulated world, and the wire below it.

A ``NetworkWire`` stands where the gRPC channel stands in production: above it the production
clients and their codec, behind it the production handlers (``gridio.rpc.local_wire``), so that
every verb there is travels as real bytes, with its real deadline and its real number of attempts.

What a caller sees is what the real client would show: ``UnavailableError`` when the connection
breaks or is refused, ``DeadlineError`` when nothing ever comes back, and then nobody can tell
whether the question or the answer was lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Coroutine
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from gridtravel.gridcore.errors import DeadlineError, GridError, UnavailableError
from gridtravel.gridio.rpc.client.wire_ports import WireCalendar, WireSite
from gridtravel.gridio.rpc.local_wire import LocalWire
from gridtravel.gridio.rpc.verbs import A, Q, Verb
from gridtravel.gridio.sites.connections import ClockSkew, TransportName
from gridtravel.simulator.kernel.processes import PointKind, SimulatedProcess, outside

if TYPE_CHECKING:
    from gridtravel.gridcore.callers import Caller
    from gridtravel.gridcore.ports import CalendarPort, SitePort
    from gridtravel.gridio.system.clock import Clock
    from gridtravel.simulator.kernel.network import Host, Network

RECONNECT_LEAST_S: Final = 0.05
RECONNECT_MOST_S: Final = 1.0
"""A broken connection is open again after this long, as gRPC's is."""
APART_S: Final = 1e-5
"""Between two messages of one stream: equal timers have no order."""
INTERNAL_ERROR: Final = "internal error"
"""Said by a carrier when a handler raised what is no fault of the grid: always a defect."""


class BrokenConnectionError(UnavailableError):
    """The connection broke, or was refused: the client may ask again by itself."""


class SimulatedConnection:
    """See ``gridio.sites.connections.SiteConnection``; over a ``NetworkWire``, for as long as
    ``source``
    lives.
    """

    def __init__(
        self, network: Network, source: SimulatedProcess, clock: Clock, target: str, caller: Caller
    ) -> None:
        self._wire = wire = NetworkWire(network, source, target, caller)
        self._clock = clock
        self.calendar: CalendarPort = WireCalendar(wire, clock)
        self.site: SitePort = WireSite(wire, clock)
        self.transport: TransportName = "inproc"
        self.endpoint = wire.endpoint

    def skew_s(self) -> ClockSkew | None:
        """Exact, because both clocks can be read at once."""
        site_clock = self._wire.target_clock
        if site_clock is None:
            return None
        skew_s = site_clock.now_precise() - self._clock.now_precise()
        return ClockSkew(skew_s=skew_s, uncertainty_s=0.0)

    async def close(self) -> None:
        """Nothing to end."""


class NetworkWire:
    """Messages from ``source`` to the party called ``target``, as ``caller``."""

    def __init__(
        self, network: Network, source: SimulatedProcess, target: str, caller: Caller
    ) -> None:
        self._network = network
        self._source = source
        self._target = target
        self._caller = caller
        self._local: tuple[SimulatedProcess, LocalWire] | None = None

    @property
    def endpoint(self) -> str:
        """Where it leads, for messages."""
        return f"simulated:{self._target}"

    @property
    def target_clock(self) -> Clock | None:
        """The clock at the other end."""
        host = self._network.host(self._target)
        return None if host is None else host.clock

    async def ask(self, verb: Verb[Q, A], question: Q) -> A:
        """One question, one answer; asked again while the connection breaks, as often as the
        production client does.
        """
        return await self._insist(verb, lambda local: local.ask(verb, question), question)

    async def tell(self, verb: Verb[Q, A], parts: AsyncIterable[Q]) -> A:
        """Many parts, one answer. All parts travel as one message."""
        kept = [part async for part in parts]

        async def again() -> AsyncGenerator[Q, None]:
            for part in kept:
                yield part

        return await self._insist(verb, lambda local: local.tell(verb, again()), kept)

    async def listen(self, verb: Verb[Q, A], question: Q) -> AsyncGenerator[A, None]:
        """One question, many answers in their order. A lost message breaks the connection."""
        network, source = self._network, self._source
        heard: asyncio.Queue[A | GridError | None] = asyncio.Queue()
        pumps: list[asyncio.Task[None]] = []
        is_closed = False

        def arrive() -> None:
            if pumps:
                return  # A copy: a stream is one connection, which knows what it heard.
            life = self._receive()
            if life is None or is_closed:
                heard.put_nowait(self._refused(verb))
                return
            pumps.append(life.start(self._pump(life, verb, question, heard), verb.method))
            life.on_exit(lambda: network.later(network.delay_s(), lambda: heard.put_nowait(broken)))

        def hang_up() -> None:
            for pump in pumps:
                pump.cancel()

        broken = BrokenConnectionError(f"{verb.method} at {self.endpoint}: the connection broke")
        take_back = source.on_exit(lambda: network.later(network.delay_s(), hang_up))
        try:
            if network.carry(source, self._target, verb.method, arrive) is None:
                await self._wait(network.delay_s())
                raise broken
            while (answer := await heard.get()) is not None:
                if isinstance(answer, GridError):
                    raise answer
                yield answer
        finally:
            is_closed = True
            take_back()
            network.later(network.delay_s(), hang_up)

    # -- unary calls -------------------------------------------------------------------------------

    async def _insist(
        self, verb: Verb[Any, A], work: Callable[[LocalWire], Coroutine[Any, Any, A]], words: object
    ) -> A:
        network = self._network
        give_up_at = network.loop.time() + verb.deadline_s
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._call(verb, work, words, give_up_at)
            except BrokenConnectionError:
                if attempt >= verb.attempts_max:
                    raise
                await self._wait(network.chance.seconds(RECONNECT_LEAST_S, RECONNECT_MOST_S))
                if network.loop.time() >= give_up_at:
                    raise

    async def _call(
        self,
        verb: Verb[Any, A],
        work: Callable[[LocalWire], Coroutine[Any, Any, A]],
        words: object,
        give_up_at: float,
    ) -> A:
        """Send the question once and wait for the answer, a broken connection or the deadline."""
        network, source = self._network, self._source
        loop = network.loop
        if loop.is_ending:
            raise self._refused(verb)
        reply: asyncio.Future[A] = loop.create_future()
        call = _Call(verb.method, words, reply, give_up_at - loop.time())

        def arrive() -> None:
            life = self._receive()
            if life is None:
                if network.notices():
                    network.later(network.delay_s(), lambda: call.fail(self._refused(verb)))
                return
            call.handlers.append(life.start(self._handle(life, call, work), verb.method))
            call.undo.append(life.on_exit(lambda: self._broke(call)))

        def late() -> None:
            call.fail(
                DeadlineError(
                    f"{verb.method} at {self.endpoint}: no answer in {verb.deadline_s:g} s"
                )
            )

        network.event_log.tell(source.party, "asks {}: {} {}", self._target, verb.method, words)
        call.undo.append(source.on_exit(lambda: self._hang_up(call)))
        deadline = outside(loop.call_at, give_up_at, late)
        try:
            sent = network.carry(source, self._target, verb.method, arrive)
            if sent is None and network.notices():
                self._broke(call)
            return await reply
        except (asyncio.CancelledError, UnavailableError):
            self._hang_up(call)
            raise
        finally:
            deadline.cancel()
            for undo in call.undo:
                undo()

    def _receive(self) -> SimulatedProcess | None:
        """The life that serves a message that arrives now; ``None``: nobody does."""
        host = self._network.host(self._target)
        life = None if host is None else host.life
        if host is None or life is None or host.services() is None:
            return None
        return life if life.passes(PointKind.RECEIVED) else None

    async def _handle(
        self,
        life: SimulatedProcess,
        call: _Call,
        work: Callable[[LocalWire], Coroutine[Any, Any, Any]],
    ) -> None:
        """At the target: carry out the verb and send the answer, unless the caller has gone."""
        network = self._network
        answer: Any = None
        fault: GridError | None = None
        try:
            async with asyncio.timeout(call.patience_s):
                answer = await work(self._wire_to(life))
        except GridError as told:
            fault = told
        except TimeoutError:
            network.event_log.fault(
                "call given up", life.party, "{} is not done in time", call.method
            )
            return
        if fault is not None and type(fault) is GridError and INTERNAL_ERROR in fault.message:
            network.event_log.broken("no defects", f"{life.party}: {fault}", life.party)
        network.event_log.tell(
            life.party, "answers {}: {} {}", self._source.party, call.method, fault or answer
        )
        self._note_answer(life, call, answer)

        def arrive() -> None:
            if self._source.passes(PointKind.RECEIVED):
                if fault is not None:
                    call.fail(fault)
                else:
                    if call.method == "Vote":
                        network.contacts.heard(self._source.party, life.party)
                    call.succeed(answer)

        sent = network.carry(life, self._source.party, f"{call.method} answer", arrive)
        if sent is None and network.notices():
            self._broke(call)

    def _note_answer(self, life: SimulatedProcess, call: _Call, answer: Any) -> None:
        host = self._network.host(life.party)
        if host is not None and answer is not None:
            host.acknowledged(call.method, call.words, answer)

    def _wire_to(self, life: SimulatedProcess) -> LocalWire:
        """The production handlers of that life, for our caller."""
        if self._local is None or self._local[0] is not life:
            host: Host | None = self._network.host(self._target)
            services = None if host is None else host.services()
            assert host is not None, "who receives can be called"
            assert services is not None, "who receives is ready"
            wire = LocalWire(services, self._caller, clock=host.clock, endpoint=self.endpoint)
            self._local = (life, wire)
        return self._local[1]

    def _broke(self, call: _Call) -> None:
        """The connection breaks; the caller finds out a moment later."""
        fault = BrokenConnectionError(f"{call.method} at {self.endpoint}: the connection broke")
        self._network.later(self._network.delay_s(), lambda: call.fail(fault))

    def _hang_up(self, call: _Call) -> None:
        """The caller has gone. When the other end notices, gRPC cancels the call there."""
        network = self._network

        def cancel() -> None:
            for handler in call.handlers:
                if not handler.done():
                    network.event_log.fault(
                        "call cancelled", self._target, "{}: the caller has gone", call.method
                    )
                    handler.cancel()

        if network.notices():
            network.later(network.delay_s(), cancel)

    def _refused(self, verb: Verb[Any, Any]) -> BrokenConnectionError:
        return BrokenConnectionError(f"{verb.method} at {self.endpoint}: nobody answers there")

    async def _wait(self, seconds: float) -> None:
        waiter: asyncio.Future[None] = self._network.loop.create_future()
        handle = self._network.loop.call_later(seconds, _wake, waiter)
        try:
            await waiter
        finally:
            handle.cancel()

    # -- streams -----------------------------------------------------------------------------------

    async def _pump(
        self,
        life: SimulatedProcess,
        verb: Verb[Any, A],
        question: Any,
        heard: asyncio.Queue[A | GridError | None],
    ) -> None:
        """At the target: answer after answer, none overtakes another."""
        network = self._network
        free_at = 0.0
        fault: GridError | None = None
        try:
            async with aclosing(self._wire_to(life).listen(verb, question)) as answers:
                async for answer in answers:
                    lost = network.is_cut(life.party, self._source.party)
                    if lost or network.chance.happens(network.conditions.loss):
                        network.event_log.fault(
                            "broken stream", life.party, "{} breaks", verb.method
                        )
                        fault = BrokenConnectionError(f"{verb.method}: the stream broke")
                        break
                    network.event_log.messages[f"{verb.method} answer"] += 1
                    free_at = max(free_at + APART_S, network.loop.time() + network.delay_s())
                    outside(network.loop.call_at, free_at, heard.put_nowait, answer)
        except GridError as told:
            fault = told
        free_at = max(free_at + APART_S, network.loop.time() + network.delay_s())
        outside(network.loop.call_at, free_at, heard.put_nowait, fault)


class _Call:
    """One question on its way, and who waits for what becomes of it."""

    __slots__ = ("handlers", "method", "patience_s", "reply", "undo", "words")

    def __init__(
        self, method: str, words: object, reply: asyncio.Future[Any], patience_s: float
    ) -> None:
        self.method = method
        self.words = words
        self.reply = reply
        self.patience_s = patience_s
        """What the caller still waits; the other end counts it from the arrival, as gRPC does."""
        self.handlers: list[asyncio.Task[None]] = []
        self.undo: list[Callable[[], None]] = []

    def fail(self, fault: GridError) -> None:
        """The first end counts."""
        if not self.reply.done():
            self.reply.set_exception(fault)

    def succeed(self, answer: Any) -> None:
        """The first end counts."""
        if not self.reply.done():
            self.reply.set_result(answer)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)

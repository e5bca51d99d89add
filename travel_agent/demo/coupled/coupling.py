"""How two programs of one trip find each other and exchange numbers, step by step.

All they know is in the variables that a site sets for the task of a leg: ``GRID_TRIP``,
``GRID_LEG``, ``GRID_CONTACT`` (where this leg may listen) and ``GRID_COMPANIONS`` (the other legs
and their contacts, as JSON). Both sides conclude from the names of the legs alone who listens: the
smaller name does. This file travels with the programs and uses the standard library alone.

Who knows the trip's identifier, which cannot be guessed, is taken for a companion. That keeps
strays out; it is no encryption, and a program with secrets needs more.
"""

from __future__ import annotations

import hmac
import json
import os
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MEETING_S = 60.0
"""How long one side waits for the other to come up; both start together, give or take clocks."""
RETRY_S = 0.1
HELLO_S = 5.0
"""How long a stranger may hold the door before the next in line is asked."""
STEP_S = 30.0
"""Longest silence of the companion within a step."""
HELLO_BYTES_MAX = 4096
VALUES_MAX = 100_000
"""Most numbers of one exchange; more than the kernel's buffers hold would need a reader beside the
writer."""


class CouplingError(Exception):
    """The companion cannot be reached, is not who it should be, or fell silent."""


class StrangerError(CouplingError):
    """Whoever is at the other end is not of this trip; the companion may still come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What the site told this leg about itself and the one it travels with."""

    trip: str
    leg: str
    site: str
    nodes: int
    contact: str
    companion_leg: str
    companion_site: str
    companion_contact: str

    @property
    def listens(self) -> bool:
        """True on exactly one of the two sides."""
        return self.leg < self.companion_leg

    @classmethod
    def from_environment(cls, variables: Mapping[str, str]) -> Place:
        """Read the ``GRID_`` variables; ``CouplingError`` when they do not name one companion."""
        try:
            companions = json.loads(variables["GRID_COMPANIONS"])
            if len(companions) != 1:
                raise CouplingError(f"this program needs one companion, not {len(companions)}")
            companion = companions[0]
            return cls(
                trip=variables["GRID_TRIP"],
                leg=variables["GRID_LEG"],
                site=variables["GRID_SITE"],
                nodes=int(variables["GRID_NODES"]),
                contact=variables["GRID_CONTACT"],
                companion_leg=companion["leg"],
                companion_site=companion["site"],
                companion_contact=companion["contact"],
            )
        except KeyError as fault:
            raise CouplingError(f"not the leg of a trip: {fault} is not set") from None
        except (TypeError, ValueError) as fault:
            raise CouplingError(f"the variables of the leg make no sense: {fault}") from None


class Companion:
    """The connection to the other leg. ``exchange`` is the only thing it does."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.exchanges = 0
        """How many times both sides have given and taken."""

    def exchange(self, values: Sequence[float]) -> list[float]:
        """Give ``values`` and take as many from the other side, for the same step.

        The numbers cross as IEEE 754 doubles, so not a bit of them is lost.
        """
        if len(values) > VALUES_MAX:
            raise CouplingError(f"more than {VALUES_MAX} values in one exchange")
        form = struct.Struct(f"!I{len(values)}d")
        try:
            self._connection.sendall(form.pack(self.exchanges, *values))
            step, *received = form.unpack(_receive(self._connection, form.size))
        except OSError as fault:
            raise CouplingError(f"step {self.exchanges}: lost the companion: {fault}") from fault
        if step != self.exchanges:
            raise CouplingError(f"the companion is at step {step}, this side at {self.exchanges}")
        self.exchanges += 1
        return received

    def close(self) -> None:
        """Hang up."""
        self._connection.close()


def meet(place: Place, agreement: Mapping[str, int], *, patience_s: float = MEETING_S) -> Companion:
    """Meet the other leg. ``agreement`` (steps, size of the grid) must be equal on both sides."""
    give_up_at = time.monotonic() + patience_s
    connection = (_listen if place.listens else _call)(place, agreement, give_up_at)
    connection.settimeout(STEP_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Companion(connection)


def _listen(place: Place, agreement: Mapping[str, int], give_up_at: float) -> socket.socket:
    """Answer the door until the companion stands there."""
    address = _address(place.contact)
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    try:
        door = socket.create_server(address, family=family)
    except OSError as fault:
        raise CouplingError(f"cannot listen on {place.contact}: {fault}") from fault
    with door:
        while (left_s := give_up_at - time.monotonic()) > 0:
            door.settimeout(left_s)
            try:
                visitor, _ = door.accept()
            except TimeoutError:
                break
            visitor.settimeout(HELLO_S)
            try:
                hello = _check_hello(_receive_hello(visitor), place)
                _send_hello(visitor, place, agreement)
            except (StrangerError, OSError) as fault:
                visitor.close()
                report(f"turned a visitor away: {fault}")
                continue
            _check_agreement(hello, agreement, visitor)
            return visitor
    raise CouplingError(f"{place.companion_leg} did not come to {place.contact}")


def _call(place: Place, agreement: Mapping[str, int], give_up_at: float) -> socket.socket:
    """Knock until the companion opens: it may start a moment later, or not be ready yet."""
    address = _address(place.companion_contact)
    reason = "no time left"
    while (left_s := give_up_at - time.monotonic()) > 0:
        try:
            connection = socket.create_connection(address, timeout=min(HELLO_S, left_s))
        except OSError as fault:
            reason = str(fault)
        else:
            try:
                connection.settimeout(HELLO_S)
                _send_hello(connection, place, agreement)
                hello = _check_hello(_receive_hello(connection), place)
            except (StrangerError, OSError) as fault:
                connection.close()
                reason = str(fault)
            else:
                _check_agreement(hello, agreement, connection)
                return connection
        time.sleep(RETRY_S)
    raise CouplingError(f"{place.companion_leg} at {place.companion_contact}: {reason}")


def _send_hello(connection: socket.socket, place: Place, agreement: Mapping[str, int]) -> None:
    hello = {"trip": place.trip, "leg": place.leg, **agreement}
    connection.sendall(json.dumps(hello).encode() + b"\n")


def _receive_hello(connection: socket.socket) -> bytes:
    """One line, byte by byte: what follows belongs to the first step."""
    line = b""
    while not line.endswith(b"\n"):
        if len(line) >= HELLO_BYTES_MAX:
            raise StrangerError("a hello without end")
        line += _receive(connection, 1)
    return line


def _check_hello(line: bytes, place: Place) -> dict[str, object]:
    """The hello of the companion; ``StrangerError`` for anybody else's."""
    try:
        hello: dict[str, object] = json.loads(line)
        trip, leg = str(hello["trip"]), hello["leg"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise StrangerError("that was no hello of ours") from None
    if not hmac.compare_digest(trip.encode(), place.trip.encode()) or leg != place.companion_leg:
        raise StrangerError("somebody of another trip")
    return hello


def _check_agreement(
    hello: Mapping[str, object], agreement: Mapping[str, int], connection: socket.socket
) -> None:
    """Two programs that count differently must not begin; waiting does not help them."""
    theirs = {name: hello.get(name) for name in agreement}
    if theirs != dict(agreement):
        connection.close()
        raise CouplingError(f"the companion runs {theirs}, this side {dict(agreement)}")


def _receive(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        piece = connection.recv(size - len(received))
        if not piece:
            raise ConnectionError("the other side hung up")
        received += piece
    return bytes(received)


def _address(contact: str) -> tuple[str, int]:
    host, _, port = contact.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()):
        raise CouplingError(f"{contact!r} is not host:port")
    return host.strip("[]"), int(port)


class Pace:
    """Spreads the steps evenly over a stretch of real time, so that one can watch them."""

    def __init__(self, steps: int, duration_s: float) -> None:
        self._step_s = duration_s / steps
        self._begun_at = time.monotonic()

    def keep(self, step: int) -> None:
        """Sleep until it is time for ``step``; a step that is late is not delayed further."""
        ahead_s = self._begun_at + step * self._step_s - time.monotonic()
        if ahead_s > 0.001:
            time.sleep(ahead_s)


def report(line: str) -> None:
    """Tell whoever follows the leg's output."""
    print(line, flush=True)


def write_result(path: Path, result: Mapping[str, object]) -> None:
    """Write the result whole: whoever finds the file finds all of it."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)

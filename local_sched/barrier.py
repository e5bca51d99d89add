"""``grid-barrier``: wait until every leg of a trip has come as far as this.

A program of a trip runs it between its preparation and its work, or the travel agent does, when the
metajob says ``barrier = true``. All that it knows is what a site tells a leg
(docs/leg-environment.md). The leg whose name sorts first listens at its own contact; the others
call it. When all have come the listener lets all go, in one round of messages, so that they go on
within a network's delay of each other. Whoever does not know the trip's identifier is sent away.

Exit code 0: all are here. 1: not all came in time, or the way to them is broken. 2: this is no leg
of a trip, or there is no contact to meet at.

Standard library alone, and nothing of this project, so that it starts at once.
"""

from __future__ import annotations

import argparse
import contextlib
import hmac
import json
import os
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass

LIMIT_S = 120.0
"""How long to wait for the others: legs start together, but preparations differ."""
RETRY_S = 0.05
HELLO_S = 5.0
"""How long a visitor may take to say who it is."""
LINE_BYTES_MAX = 1024
GO = b"go\n"


class BarrierError(Exception):
    """Not all came, or this is no place to wait. ``code``: the exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """Who meets where."""

    trip: str
    leg: str
    contacts: Mapping[str, str]
    """``host:port`` of every leg, this one included."""

    @property
    def host(self) -> str:
        """The leg that listens; all legs come to the same answer."""
        return min(self.contacts)

    @classmethod
    def from_environment(cls, variables: Mapping[str, str]) -> Meeting:
        """Read the ``GRID_`` variables."""
        try:
            companions = json.loads(variables["GRID_COMPANIONS"])
            leg, contact = variables["GRID_LEG"], variables["GRID_CONTACT"]
            contacts = {leg: contact, **{each["leg"]: each["contact"] for each in companions}}
            meeting = cls(trip=variables["GRID_TRIP"], leg=leg, contacts=contacts)
        except (KeyError, TypeError, ValueError) as fault:
            raise BarrierError(f"this is not the leg of a trip: {fault}", 2) from None
        if len(contacts) > 1 and not contacts[meeting.host]:
            raise BarrierError(f"the site of {meeting.host} gives its legs no contact", 2)
        return meeting


def wait(meeting: Meeting, *, limit_s: float = LIMIT_S) -> None:
    """Return when every leg waits; ``BarrierError`` when that takes longer than ``limit_s``."""
    if len(meeting.contacts) == 1:
        return
    give_up_at = time.monotonic() + limit_s
    if meeting.leg == meeting.host:
        _host(meeting, give_up_at)
    else:
        _visit(meeting, give_up_at)


def _host(meeting: Meeting, give_up_at: float) -> None:
    """Let everybody in, then all go."""
    inside: dict[str, socket.socket] = {}
    address = _address(meeting.contacts[meeting.leg])
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    try:
        door = socket.create_server(address, family=family)
    except OSError as fault:
        raise BarrierError(f"cannot listen on {meeting.contacts[meeting.leg]}: {fault}") from None
    with door, contextlib.ExitStack() as visits:
        while len(inside) < len(meeting.contacts) - 1:
            left_s = give_up_at - time.monotonic()
            missing = ", ".join(sorted({*meeting.contacts} - {*inside, meeting.leg}))
            if left_s <= 0:
                raise BarrierError(f"these legs did not come: {missing}")
            door.settimeout(left_s)
            try:
                visitor, _ = door.accept()
            except TimeoutError:
                continue
            visits.callback(visitor.close)
            visitor.settimeout(min(HELLO_S, max(left_s, RETRY_S)))
            leg = _who_is(visitor, meeting)
            if leg:
                # A leg that comes again has lost its first connection.
                inside[leg] = visitor
        for leg, visitor in inside.items():
            try:
                visitor.sendall(GO)
            except OSError as fault:
                raise BarrierError(f"{leg} came and went away: {fault}") from None


def _who_is(visitor: socket.socket, meeting: Meeting) -> str:
    """The leg that a visitor is; empty: a stranger."""
    try:
        said = json.loads(_line(visitor))
        knows = hmac.compare_digest(str(said["trip"]).encode(), meeting.trip.encode())
        leg = str(said["leg"])
    except (OSError, ValueError, TypeError, KeyError):
        return ""
    return leg if knows and leg in meeting.contacts and leg != meeting.leg else ""


def _visit(meeting: Meeting, give_up_at: float) -> None:
    """Call the host until it answers, and wait for the word."""
    hello = json.dumps({"trip": meeting.trip, "leg": meeting.leg}).encode() + b"\n"
    address = _address(meeting.contacts[meeting.host])
    problem = "it never answered"
    while (left_s := give_up_at - time.monotonic()) > 0:
        try:
            with socket.create_connection(address, timeout=min(HELLO_S, left_s)) as door:
                door.sendall(hello)
                door.settimeout(left_s)
                if _line(door) == GO:
                    return
                problem = "it hung up"
        except OSError as fault:
            problem = str(fault)
        time.sleep(RETRY_S)
    raise BarrierError(f"{meeting.host} did not let us go: {problem}")


def _line(connection: socket.socket) -> bytes:
    """What the other end says up to the end of a line, or of the connection."""
    said = b""
    while not said.endswith(b"\n") and len(said) < LINE_BYTES_MAX:
        piece = connection.recv(LINE_BYTES_MAX - len(said))
        if not piece:
            break
        said += piece
    return said


def _address(contact: str) -> tuple[str, int]:
    host, _, port = contact.rpartition(":")
    if not (port.isascii() and port.isdecimal()):
        raise BarrierError(f"{contact!r} is no contact", 2)
    return host.strip("[]"), int(port)


def main() -> None:
    """Entry point of ``grid-barrier``."""
    parser = argparse.ArgumentParser(description="Wait until every leg of the trip waits too.")
    parser.add_argument(
        "--limit-s", type=float, default=LIMIT_S, help="seconds to wait (default %(default)s)"
    )
    arguments = parser.parse_args()
    try:
        wait(Meeting.from_environment(os.environ), limit_s=arguments.limit_s)
    except BarrierError as fault:
        sys.stderr.write(f"grid-barrier: {fault}\n")
        sys.exit(fault.code)


if __name__ == "__main__":
    main()

"""What a service does for each of its verbs: messages in, messages out, on top of any port.

Who asks, deadlines, faults and metadata are not here but around it (``calls.py``), so that the same
handlers serve a gRPC server and the wire within one process.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable
from typing import Any, TypeAlias, TypeVar

from google.protobuf.message import Message

from gridtravel.gridcore.errors import UnavailableError
from gridtravel.gridcore.ports import OutputChunk, SitePort
from gridtravel.gridio.rpc import verbs
from gridtravel.gridio.rpc.codec.checks import refuse
from gridtravel.gridio.rpc.codec.reservations import an_id
from gridtravel.gridio.rpc.codec.site_messages import CHUNK, FILE, MODE, a_path, a_sha256
from gridtravel.gridio.rpc.port_verbs import PORT_VERBS, port_verb
from gridtravel.gridio.rpc.verbs import SITE_SERVICE, AnyVerb, Kind
from gridtravel.gridio.system.clock import Clock
from gridtravel.gridio.system.streams import closing
from gridwire.v1 import site_pb2 as pb

T = TypeVar("T")

Handler: TypeAlias = Callable[[Any, Any], Any]
"""Takes a port, and a question or the parts of one; returns an answer to wait for, or several."""


def handlers_of(service: str, clock: Clock) -> dict[AnyVerb, Handler]:
    """The verbs of ``service``, each as a function of its caller's port and the question."""
    offered = [each.verb for each in PORT_VERBS.values() if each.verb.service == service]
    found: dict[AnyVerb, Handler] = {
        verb: _answers(verb, clock) if verb.kind is Kind.UNARY else _streams(verb, clock)
        for verb in offered
    }
    return found | ({verbs.PUT_FILE: put_file} if service == SITE_SERVICE else {})


def _answers(verb: AnyVerb, clock: Clock) -> Handler:
    async def answer(port: Any, question: Message) -> Message:
        meant = port_verb(verb, question)
        value = await meant.words.call(question).at(port)
        return meant.answer.encode(value, clock.now_precise())

    return answer


def _streams(verb: AnyVerb, clock: Clock) -> Handler:
    async def answers(port: Any, question: Message) -> AsyncGenerator[Message, None]:
        meant = port_verb(verb, question)
        async with closing(meant.words.call(question).at(port)) as values:
            async for value in values:
                for piece in meant.answer.cut(value):
                    yield meant.answer.encode(piece, clock.now_precise())

    return answers


async def put_file(port: SitePort, parts: AsyncIterable[pb.PutFileRequest]) -> pb.FileStatus:
    """Write a file: its head, then its content."""
    iterator = aiter(parts)
    first = await anext(iterator, None)
    if first is None or first.WhichOneof("part") != "head":
        refuse("part", "must be the head of the file at first")
    head = first.head
    status = await port.put_file(
        an_id("area", head.area),
        a_path("path", head.path),
        _chunks(iterator),
        mode=MODE("mode", head.mode),
        sha256=a_sha256("sha256", head.sha256),
    )
    return FILE.encode(status)


async def _chunks(parts: AsyncIterator[pb.PutFileRequest]) -> AsyncIterator[OutputChunk]:
    """Content until the empty part that says it is whole.

    The end of the stream alone does not say so: to a gRPC server an upload that was cancelled may
    look as if its sender had finished, and half a file would be taken for the file.
    """
    async for part in parts:
        which = part.WhichOneof("part")
        if which is None:
            return
        if which != "chunk":
            refuse("part", "must be content after the head of the file")
        yield CHUNK.decode(part.chunk)
    raise UnavailableError("the upload broke off", hint="send the rest")

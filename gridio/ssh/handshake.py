"""A TLS handshake over an SSH channel, for the sake of what it finds out.

gRPC shakes hands with the site by itself and reports every failure as a connection that broke. When
it has failed, and only then, the same is done here once more over a channel of its own.
"""

from __future__ import annotations

import ssl
from typing import Final

import paramiko

from gridtravel.gridio.rpc.refusal_line import MARK

HANDSHAKE_S: Final = 5.0
PIECE_BYTES: Final = 1 << 14


def shake_hands(
    channel: paramiko.Channel, said: bytes, context: ssl.SSLContext, server_name: str
) -> bytes:
    """Nothing when the other end proved to be ``server_name``, else the line with which it turned
    us away. ``said``: what it said already.

    ``ssl.SSLError`` says what is wrong, ``EOFError`` that it ended the connection without a word,
    ``TimeoutError`` that it is silent.
    """
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname=server_name)
    channel.settimeout(HANDSHAKE_S)
    heard = said
    incoming.write(said)
    while True:
        if heard.startswith(MARK):
            return heard
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            channel.sendall(outgoing.read())
        else:
            return b""
        piece = channel.recv(PIECE_BYTES)
        if not piece:
            raise EOFError
        heard += piece
        incoming.write(piece)


def first_words(channel: paramiko.Channel, said: bytes, within_s: float) -> bytes:
    """What the other end says before it is spoken to; empty: nothing."""
    if said:
        return said
    channel.settimeout(within_s)
    try:
        return channel.recv(PIECE_BYTES)
    except TimeoutError:
        return b""

"""One connection's dialect: which one the other side speaks, and how to read and answer it.

The first byte of a body picks the dialect (0x9x is native; a Kafka request begins with 0x00). Past this file nobody knows
which one it was.
"""

from collections.abc import Sequence

from ottla.wire import native
from ottla.wire.batch import Buffer
from ottla.wire.errors import OttlaError, RemoteProtocolError
from ottla.wire.messages import Message
from ottla.wire.native import IncomingRequest, UnreadableRequest

__all__ = ["IncomingRequest", "UnreadableRequest", "encode_error", "encode_response", "read_request"]


def read_request(body: memoryview) -> IncomingRequest | UnreadableRequest:
    """The request in a frame, or what to answer when it cannot be read; RemoteProtocolError means: hang up."""
    if body[0] & 0xF0 == 0x90:
        return native.decode_request(body)
    raise RemoteProtocolError(
        f"a request in a dialect that is not spoken here: it begins with {bytes(body[:4]).hex(' ')}"
    )


def encode_response(request: IncomingRequest, message: Message, attachments: Sequence[Buffer] = ()) -> list[Buffer]:
    return native.encode_response(message, request.correlation_id, attachments)


def encode_error(request: IncomingRequest | UnreadableRequest, error: OttlaError) -> list[Buffer]:
    return native.encode_error(error, request.correlation_id)

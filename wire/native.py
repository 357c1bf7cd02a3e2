"""The native dialect: msgpack heads, raw attachments behind them.

A request's body is ``[head_length, api, version, correlation_id, client_id, fields]`` in msgpack and then the attachments'
bytes, one after the other; a response's is ``[head_length, correlation_id, error_code, error_message, fields]`` and its
attachments. ``head_length``, always encoded as a msgpack uint 32 (0xce and four bytes), counts the msgpack part, so
that attachments never pass through msgpack. ``fields`` is the array of a message of ottla.wire.requests; the sizes of the
attachments stand in it. A response with an error code has nil for fields.

The first byte of a body is therefore 0x9x, which no Kafka request begins with.
"""

import struct
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec

from ottla.wire.apis import REQUESTS
from ottla.wire.batch import Buffer
from ottla.wire.breath import BREATH, let_others_run
from ottla.wire.dialect import Dialect, IncomingRequest, UnreadableRequest
from ottla.wire.errors import (
    NO_ERROR,
    InvalidRequest,
    LocalProtocolError,
    OttlaError,
    RemoteProtocolError,
    UnsupportedVersion,
    error_for,
)
from ottla.wire.framing import FRAME_MAX, LENGTH, LENGTH_SIZE
from ottla.wire.messages import Api, Message, Request
from ottla.wire.request_limits import INLINE_HEAD_MAX, PARTS_MAX, LongRequest, limit_of
from ottla.wire.requests import ApiRange

REQUEST_MARK: Final = 0x96  # msgpack's array of six
RESPONSE_MARK: Final = 0x95  # msgpack's array of five

_HEAD_LENGTH = struct.Struct(">I")
_HEAD_LENGTH_AT: Final = 2  # behind the array's mark and the uint's
_PLACEHOLDER: Final = 0xFFFFFFFF  # any number that msgpack encodes as uint 32
_UINT32_MARK: Final = 0xCE
_SMALLEST_HEAD: Final = 10
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

REQUEST_HEAD_MAX: Final = 4 * 1024 * 1024
"""The msgpack part of a request: ten thousand parts with the longest names. Each of its bytes may become fifty of objects."""

CLIENT_ID_MAX: Final = 256
ERROR_MESSAGE_MAX: Final = 1000

M = TypeVar("M", bound=Message)

_encoder = msgspec.msgpack.Encoder()
_request_head = msgspec.msgpack.Decoder(tuple[int, int, int, int, str | None, msgspec.Raw])
_response_head = msgspec.msgpack.Decoder(tuple[int, int, int, str, msgspec.Raw])
_PRODUCE: Final = int(Api.PRODUCE)
_decoders: dict[type[Message], msgspec.msgpack.Decoder[Any]] = {}
_api_at = _HEAD_LENGTH_AT + _HEAD_LENGTH.size
_whole_heads: dict[int, msgspec.msgpack.Decoder[Any]] = {
    api: msgspec.msgpack.Decoder(tuple[int, int, int, int, str | None, REQUESTS[api]])  # type: ignore[valid-type]
    for api in (Api.PRODUCE, Api.FETCH)
}
"""Head and fields in one step, for the requests that come most often. Small numbers are themselves in msgpack."""


class IncomingResponse:
    """A response as the client received it."""

    __slots__ = ("correlation_id", "error", "fields", "tail")

    def __init__(self, correlation_id: int, error: OttlaError | None, fields: msgspec.Raw, tail: memoryview) -> None:
        self.correlation_id = correlation_id
        self.error = error
        self.fields = fields
        self.tail = tail


def encode_request(
    message: Request, correlation_id: int, client_id: str | None, attachments: Sequence[Buffer] = ()
) -> list[Buffer]:
    head = (_PLACEHOLDER, int(message.api), message.versions[1], correlation_id, client_id, message)
    pieces = _frame(head, attachments)
    if len(pieces[0]) - LENGTH_SIZE > REQUEST_HEAD_MAX:
        raise LocalProtocolError(
            f"{type(message).__name__} of {len(pieces[0])} bytes without its records; at most {REQUEST_HEAD_MAX} can be sent"
        )
    return pieces


class NativeDialect:
    """Requests as Ottla's own clients and brokers send them."""

    def __init__(self) -> None:
        self.api_ranges = [
            ApiRange(api=int(api), oldest=cls.versions[0], newest=cls.versions[1])
            for api, cls in sorted(REQUESTS.items())
        ]

    def converts(self, message: Message, attachments: Sequence[Buffer]) -> bool:
        return False

    def speaks(self, body: memoryview) -> bool:
        return body[0] & 0xF0 == REQUEST_MARK & 0xF0

    def frame_max(self, head: memoryview) -> int:
        if head[0] != REQUEST_MARK or head[1] != _UINT32_MARK:
            return 0
        api = head[_api_at]
        if api == _PRODUCE:
            return limit_of(api).frame_max
        return (
            min(limit_of(api).frame_max, REQUEST_HEAD_MAX) if api < 128 else REQUEST_HEAD_MAX
        )  # ours: of brokers, mostly

    def is_produce(self, head: memoryview) -> bool:
        return False  # our own clients greet

    def read_request(self, body: memoryview) -> IncomingRequest | UnreadableRequest:
        head, tail = _split(body, REQUEST_MARK)
        if INLINE_HEAD_MAX < len(head) <= REQUEST_HEAD_MAX:
            raise LongRequest
        return self._read(head, tail)

    def read_long_request(self, body: memoryview) -> IncomingRequest | UnreadableRequest:
        head, tail = _split(body, REQUEST_MARK)
        request = self._read(head, tail)
        if isinstance(request, IncomingRequest):
            request.is_long = True
        return request

    def _read(self, head: memoryview, tail: memoryview) -> IncomingRequest | UnreadableRequest:
        if len(head) > REQUEST_HEAD_MAX:
            raise RemoteProtocolError(
                f"a request of {len(head)} bytes without its records; allowed are {REQUEST_HEAD_MAX}"
            )
        whole = _whole_heads.get(head[_api_at])
        if whole is not None:
            try:
                _, api, version, correlation_id, client_id, message = whole.decode(head)
                if version == 0 and 0 <= correlation_id < 2**31 and len(client_id or "") <= CLIENT_ID_MAX:
                    if len(message.parts) > PARTS_MAX:
                        return UnreadableRequest(self, api, 0, correlation_id, _too_many(message))
                    attachments = cut_attachments(message, tail)
                    return IncomingRequest(self, api, 0, correlation_id, client_id or "", message, attachments)
            except (*_UNREADABLE, OttlaError):
                pass  # step by step, to tell what is wrong with it
        return self._read_step_by_step(head, tail)

    def _read_step_by_step(self, head: memoryview, tail: memoryview) -> IncomingRequest | UnreadableRequest:
        try:
            _, api, version, correlation_id, client_id, fields = _request_head.decode(head)
        except _UNREADABLE as unreadable:
            raise RemoteProtocolError(f"a request whose head cannot be read: {unreadable}") from None
        if not 0 <= correlation_id < 2**31 or (client_id is not None and len(client_id) > CLIENT_ID_MAX):
            raise RemoteProtocolError("a request whose correlation id or client id is out of range")
        cls = REQUESTS.get(api)
        if cls is None or not cls.versions[0] <= version <= cls.versions[1]:
            unknown = UnsupportedVersion(f"api {api} version {version} is not known here")
            return UnreadableRequest(self, api, version, correlation_id, unknown)
        try:
            message = decode_fields(cls, fields)
            if message.carries_records and len(message.parts) > PARTS_MAX:  # type: ignore[attr-defined]
                raise _too_many(message)
            attachments = cut_attachments(message, tail)
        except OttlaError as error:
            return UnreadableRequest(self, api, version, correlation_id, InvalidRequest(str(error)))
        return IncomingRequest(self, api, version, correlation_id, client_id or "", message, attachments)

    def encode_response(
        self, request: IncomingRequest, message: Message, attachments: Sequence[Buffer] = ()
    ) -> list[Buffer]:
        return encode_response(message, request.correlation_id, attachments)

    def encode_error(self, request: IncomingRequest | UnreadableRequest, error: OttlaError) -> list[Buffer]:
        return encode_error(error, request.correlation_id)


NATIVE: Dialect = NativeDialect()


def encode_response(message: Message, correlation_id: int, attachments: Sequence[Buffer] = ()) -> list[Buffer]:
    return _frame((_PLACEHOLDER, correlation_id, NO_ERROR, "", message), attachments)


def encode_error(error: OttlaError, correlation_id: int) -> list[Buffer]:
    return _frame((_PLACEHOLDER, correlation_id, error.code, str(error)[:ERROR_MESSAGE_MAX], None), ())


def decode_response(body: memoryview) -> IncomingResponse:
    head, tail = _split(body, RESPONSE_MARK)
    try:
        _, correlation_id, code, text, fields = _response_head.decode(head)
    except _UNREADABLE as error:
        raise RemoteProtocolError(f"a response whose head cannot be read: {error}") from None
    error_or_none = None if code == NO_ERROR else error_for(code, text)
    return IncomingResponse(correlation_id, error_or_none, fields, tail)


def decode_fields(cls: type[M], fields: msgspec.Raw) -> M:
    decoder = _decoders.get(cls)
    if decoder is None:
        decoder = _decoders[cls] = msgspec.msgpack.Decoder(cls)
    try:
        return decoder.decode(fields)  # type: ignore[no-any-return]
    except _UNREADABLE as error:
        raise RemoteProtocolError(f"{cls.__name__} cannot be read: {error}") from None


def _too_many(message: Any) -> InvalidRequest:
    """Why a request is not read further: cutting its attachments would keep the interpreter from other threads for long."""
    return InvalidRequest(f"{len(message.parts)} parts in one request; at most {PARTS_MAX}")


def cut_attachments(message: Message, tail: memoryview) -> list[memoryview]:
    """The attachments of a message: slices of the bytes behind its head, as long as its parts say."""
    if not message.carries_records and not tail:
        return []
    attachments = []
    position = 0
    if message.carries_records:
        parts = message.parts  # type: ignore[attr-defined]
        if len(parts) == 1 and parts[0].size == len(tail):
            return [tail]
        for part in parts:
            end = position + part.size
            if not position <= end <= len(tail):
                raise RemoteProtocolError(f"an attachment of {part.size} bytes where {len(tail) - position} are left")
            attachments.append(tail[position:end])
            position = end
            if not len(attachments) % BREATH:
                let_others_run()
    if position != len(tail):
        raise RemoteProtocolError(
            f"{len(tail) - position} bytes that belong to nothing behind {type(message).__name__}"
        )
    return attachments


def _frame(head: tuple[Any, ...], attachments: Sequence[Buffer]) -> list[Buffer]:
    """The pieces to write: length, head, attachments. Attachments are not copied."""
    buffer = bytearray(LENGTH_SIZE + 64)
    _encoder.encode_into(head, buffer, LENGTH_SIZE)
    size = head_length = len(buffer) - LENGTH_SIZE
    for attachment in attachments:
        size += len(attachment)
    if size > FRAME_MAX:
        raise LocalProtocolError(f"a frame of {size} bytes; at most {FRAME_MAX} can be sent")
    LENGTH.pack_into(buffer, 0, size)
    _HEAD_LENGTH.pack_into(buffer, LENGTH_SIZE + _HEAD_LENGTH_AT, head_length)
    return [buffer, *attachments]


def _split(body: memoryview, mark: int) -> tuple[memoryview, memoryview]:
    """Head and attachments of a body."""
    if len(body) < _SMALLEST_HEAD or body[0] != mark or body[1] != _UINT32_MARK:
        raise RemoteProtocolError(
            f"a frame that is not of the native dialect: it begins with {bytes(body[:4]).hex(' ')}"
        )
    (head_length,) = _HEAD_LENGTH.unpack_from(body, _HEAD_LENGTH_AT)
    if not _SMALLEST_HEAD <= head_length <= len(body):
        raise RemoteProtocolError(f"a head of {head_length} bytes in a frame of {len(body)}")
    return body[:head_length], body[head_length:]

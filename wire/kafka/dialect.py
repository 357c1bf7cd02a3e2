"""The dialect itself: from a frame to one of our requests, and from our answer to a frame in the version that was asked for."""

from collections.abc import Callable, Sequence
from typing import Final

from ottla.wire.batch import Buffer
from ottla.wire.dialect import IncomingRequest, UnreadableRequest
from ottla.wire.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
    InvalidRequest,
    LocalProtocolError,
    OttlaError,
    RemoteProtocolError,
    UnsupportedVersion,
)
from ottla.wire.framing import FRAME_MAX, LENGTH
from ottla.wire.kafka import fetch, produce, schemas
from ottla.wire.kafka.api import Asked, error_values
from ottla.wire.kafka.apis import APIS
from ottla.wire.kafka.batches import any_columnar
from ottla.wire.kafka.primitives import INT16, INT32, Reader
from ottla.wire.kafka.refused import REFUSED, refusal
from ottla.wire.kafka.topic_ids import TopicIds
from ottla.wire.kafka.written_answers import WrittenAnswers, copy_of
from ottla.wire.messages import ACKS_NONE, Api, Message
from ottla.wire.request_limits import INLINE_ELEMENTS_MAX, INLINE_MAX, limit_of
from ottla.wire.requests import ApiRange, FetchRequest, FetchResponse, MetadataResponse, ProduceRequest, ProduceResponse

Convert = Callable[[str, int, Sequence[Buffer], int], tuple[list[Buffer], int]]
"""The records of a topic's partition as Kafka's clients can read them, up to a weight, and what they weigh."""

CONVERTED_MAX: Final = 16 * 1024 * 1024
"""What may be converted for one answer, by its weight: about a second of work. Columns of a megabyte can be a gigabyte of
records, which no answer can bring and no client waits for. Who wants the rest asks again."""

API_MAX: Final = 127
"""Kafka's api numbers fit into one byte, so that the first one of a request is 0."""

_HEAD_MIN: Final = 10
CLIENT_ID_MAX: Final = 1024

_SESSION_ERRORS: Final = (FetchSessionIdNotFound, InvalidFetchSessionEpoch, FetchSessionTopicIdError)

_PRODUCE, _FETCH, _METADATA, _API_VERSIONS = int(Api.PRODUCE), int(Api.FETCH), int(Api.METADATA), int(Api.API_VERSIONS)


class KafkaDialect:
    """Requests as Kafka's clients send them."""

    def __init__(self, topics: TopicIds, convert: Convert) -> None:
        self._topics = topics
        self._convert = convert
        self._written = WrittenAnswers()
        self.api_ranges = sorted(
            [
                ApiRange(_PRODUCE, 0, produce.NEWEST),
                ApiRange(_FETCH, fetch.OLDEST, fetch.NEWEST),
                *(ApiRange(api.key, api.oldest, api.newest) for api in APIS.values()),
                *(ApiRange(api, versions[0], versions[-1]) for api, versions in REFUSED.items()),
            ],
            key=lambda one: one.api,
        )
        self._ranges = {one.api: (one.oldest, one.newest) for one in self.api_ranges}

    def converts(self, message: Message, attachments: Sequence[Buffer]) -> bool:
        return any_columnar(attachments)

    def speaks(self, body: memoryview) -> bool:
        return len(body) >= _HEAD_MIN and body[0] == 0 and body[1] <= API_MAX

    def frame_max(self, head: memoryview) -> int:
        api, version = int(INT16.unpack_from(head, 0)[0]), int(INT16.unpack_from(head, 2)[0])
        oldest, newest = self._ranges.get(api, (0, -1))
        return limit_of(api).frame_max if oldest <= version <= newest else 0

    def is_produce(self, head: memoryview) -> bool:
        return int(INT16.unpack_from(head, 0)[0]) == _PRODUCE and self.frame_max(head) > 0

    # --- requests ------------------------------------------------------------------------------------------------------

    def read_request(self, body: memoryview) -> IncomingRequest | UnreadableRequest:
        return self._read_request(body, False)

    def read_long_request(self, body: memoryview) -> IncomingRequest | UnreadableRequest:
        request = self._read_request(body, True)
        if isinstance(request, IncomingRequest):
            request.is_long = True
        return request

    def _read_request(self, body: memoryview, is_long: bool) -> IncomingRequest | UnreadableRequest:
        if len(body) < _HEAD_MIN:
            raise RemoteProtocolError(f"a request of {len(body)} bytes")
        api, version = int(INT16.unpack_from(body, 0)[0]), int(INT16.unpack_from(body, 2)[0])
        correlation_id = int(INT32.unpack_from(body, 4)[0])
        oldest, newest = self._ranges.get(api, (0, -1))
        if not oldest <= version <= newest:
            unknown = UnsupportedVersion(f"api {api} version {version} is not known here")
            if api == _API_VERSIONS:
                return UnreadableRequest(self, api, 0, correlation_id, unknown)
            # What its answer looks like is not known here, so none can be given: as Kafka's brokers do, hang up.
            raise RemoteProtocolError(str(unknown))
        if api in REFUSED:
            return UnreadableRequest(self, api, version, correlation_id, refusal(api))
        try:
            return self._read(body, api, version, correlation_id, is_long)
        except InvalidRequest as error:
            raise RemoteProtocolError(f"api {api} version {version}: {error}") from None

    def _read(self, body: memoryview, api: int, version: int, correlation_id: int, is_long: bool) -> IncomingRequest:
        reader = Reader(body, 8, False, limit_of(api).elements_max)
        if is_long:
            request = self._read_from(reader, api, version, correlation_id)
            request.elements = reader.elements
            return request
        reader.inline_max = INLINE_MAX.get(api, INLINE_ELEMENTS_MAX)
        return self._read_from(reader, api, version, correlation_id)

    def _read_from(self, reader: Reader, api: int, version: int, correlation_id: int) -> IncomingRequest:
        client_id = (reader.text() or "")[:CLIENT_ID_MAX]
        reader.flexible = self._is_flexible(api, version)
        reader.tags()
        if api == _PRODUCE:
            return self._read_produce(reader, version, correlation_id, client_id)
        if api == _FETCH:
            message = fetch.read_fetch(version, reader, self._topics)
            return IncomingRequest(self, api, version, correlation_id, client_id, message, [])
        row = APIS[api]
        entity = schemas.read_request(api, version, reader)
        read = row.read(Asked(entity, version, self._topics))
        return IncomingRequest(self, api, version, correlation_id, client_id, read.message, [], read.context)

    def _read_produce(self, reader: Reader, version: int, correlation_id: int, client_id: str) -> IncomingRequest:
        message, records, context = produce.read_produce(version, reader, self._topics)
        if (context.unknown or context.refused) and message.acks == ACKS_NONE:
            why = (
                "for a topic id that nobody knows" if context.unknown else "of a codec that this version does not have"
            )
            raise InvalidRequest(f"records {why}, and no answer is wanted")
        return IncomingRequest(self, _PRODUCE, version, correlation_id, client_id, message, records, context)

    @staticmethod
    def _is_flexible(api: int, version: int) -> bool:
        if api == _PRODUCE:
            return version >= produce.FLEXIBLE_FROM
        return version >= fetch.FLEXIBLE_FROM if api == _FETCH else schemas.is_flexible(api, version)

    # --- answers -------------------------------------------------------------------------------------------------------

    def encode_response(
        self, request: IncomingRequest, message: Message, attachments: Sequence[Buffer] = ()
    ) -> list[Buffer]:
        if isinstance(message, ProduceResponse):
            return self._frame(request, produce.write_produce(request.version, message, request.context))
        if isinstance(message, FetchResponse):
            records = self._converted(request, message, _records_of(message, attachments))
            return self._frame(request, fetch.write_fetch(request.version, message, records))
        if request.is_long and isinstance(message, MetadataResponse):
            message = copy_of(message)
        if request.api == _METADATA:
            return self._frame(request, [self._metadata(request, message)])
        values = APIS[request.api].write(request, message)
        return self._frame(request, [schemas.write_response(request.api, request.version, values)])

    def _metadata(self, request: IncomingRequest, message: Message) -> bytes:
        key = self._written.key(request.version, request.context, message)
        found = self._written.find(key)
        if found is None:
            values = APIS[request.api].write(request, message)
            found = bytes(schemas.write_response(request.api, request.version, values))
            self._written.keep(key, found)
        return found

    def _converted(
        self, request: IncomingRequest, response: FetchResponse, views: list[list[Buffer]]
    ) -> list[list[Buffer]]:
        """The records of each part as they can be read, as many as one answer may bring: a part may be left without any.

        All have the same share, and another one is the first each time: it has one batch at least, so that all go on.
        """
        records: list[list[Buffer]] = [[] for _ in views]
        filled = [number for number, of_part in enumerate(views) if of_part]
        left = CONVERTED_MAX
        for turn in range(len(filled)):
            number = filled[(request.correlation_id + turn) % len(filled)]
            part = response.parts[number]
            share = min(left, CONVERTED_MAX // len(filled))
            try:
                records[number], weight = self._convert(part.topic, part.partition, views[number], share)
            except OttlaError as error:  # a damaged batch is an error of its partition only
                part.error_code, part.error_message = error.code, str(error)
                continue
            left -= weight
        return records

    def encode_error(self, request: IncomingRequest | UnreadableRequest, error: OttlaError) -> list[Buffer]:
        if isinstance(request, UnreadableRequest):
            if request.api in REFUSED:
                return self._frame(request, [schemas.write_response(request.api, request.version, error_values(error))])
            told = {"error_code": error.code, "api_keys": _range_values(self.api_ranges)}
            return self._frame(request, [schemas.write_response(_API_VERSIONS, 0, told)])
        if isinstance(request.message, ProduceRequest):
            return self.encode_response(request, produce.failed_produce(request.message, error))
        if isinstance(request.message, FetchRequest):
            return self._frame(request, _failed_fetch(request.version, request.message, error))
        values = APIS[request.api].failed(request, error)
        return self._frame(request, [schemas.write_response(request.api, request.version, values)])

    def _frame(self, request: IncomingRequest | UnreadableRequest, pieces: list[Buffer]) -> list[Buffer]:
        head = bytearray(LENGTH.size)
        head += INT32.pack(request.correlation_id)
        # An answer to ApiVersions has the old head in all versions: who asks does not know yet what we know.
        if request.api != _API_VERSIONS and self._is_flexible(request.api, request.version):
            head.append(0)
        size = len(head) - LENGTH.size
        for piece in pieces:
            size += len(piece)
        if size > FRAME_MAX:
            raise LocalProtocolError(f"a frame of {size} bytes; at most {FRAME_MAX} can be sent")
        LENGTH.pack_into(head, 0, size)
        return [head, *pieces]


def _records_of(response: FetchResponse, attachments: Sequence[Buffer]) -> list[list[Buffer]]:
    """The records of each part: as many of the views as have its size."""
    records: list[list[Buffer]] = []
    place = 0
    for part in response.parts:
        views: list[Buffer] = []
        left = part.size
        while left > 0:
            views.append(attachments[place])
            left -= len(attachments[place])
            place += 1
        records.append(views)
    return records


def _failed_fetch(version: int, request: FetchRequest, error: OttlaError) -> list[Buffer]:
    """Where no part can bear the error, or it is of the session, the answer as such does."""
    if isinstance(error, _SESSION_ERRORS) or not request.parts:
        return fetch.write_fetch(version, FetchResponse([]), [], error.code)
    response = fetch.failed_fetch(request, error)
    return fetch.write_fetch(version, response, [[] for _ in response.parts])


def _range_values(ranges: Sequence[ApiRange]) -> list[dict[str, int]]:
    return [{"api_key": one.api, "min_version": one.oldest, "max_version": one.newest} for one in ranges]

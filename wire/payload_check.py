"""Whether a payload can be what its batch header says: a few looks at it, none of them record by record.

The broker stores what producers send as it is, so a payload that no reader can open would block every consumer at its
offset. An uncompressed payload is checked as far as its layout tells; of a compressed one only that it is a stream of the
codec that the header names, for to open it would cost more than everything else that a broker does with a batch.
"""

from ottla.wire.batch import CODEC_MASK, HEADER_SIZE, MAGIC_COLUMNS, BatchHeader, Buffer, Codec
from ottla.wire.columns import check_layout
from ottla.wire.compression import XERIAL_MAGIC, check_raw_snappy
from ottla.wire.errors import CorruptMessage, InvalidRecord
from ottla.wire.kafka_records import check_first_record

STREAM_BEGINS = {Codec.GZIP: b"\x1f\x8b\x08", Codec.LZ4: b"\x04\x22\x4d\x18", Codec.ZSTD: b"\x28\xb5\x2f\xfd"}


def check_payload(batch: memoryview, header: BatchHeader) -> None:
    """InvalidRecord if the payload of a batch contradicts its header; the header itself has been checked."""
    payload = batch[HEADER_SIZE:]
    codec = header.attributes & CODEC_MASK
    try:
        if codec != Codec.NONE:
            _check_stream(codec, payload)
        elif header.magic == MAGIC_COLUMNS:
            check_layout(payload, header.count)
        else:
            check_first_record(payload, header.count)
    except CorruptMessage as error:
        raise InvalidRecord(str(error)) from None


def _check_stream(codec: int, payload: Buffer) -> None:
    if codec == Codec.SNAPPY:
        if payload[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
            check_raw_snappy(payload)
        return
    begin = STREAM_BEGINS[Codec(codec)]
    if payload[: len(begin)] != begin:
        raise CorruptMessage(f"payload of {len(payload)} bytes that is not compressed with {Codec(codec).name.lower()}")

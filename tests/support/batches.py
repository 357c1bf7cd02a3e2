"""Record batches as a test reads them from an answer."""

from ottla.wire.batch import LENGTH_OVERHEAD, Buffer
from ottla.wire.records import DECODED_MAX, RecordBatch


def split_batches(buffer: Buffer, verify: bool = True, decoded_max: int = DECODED_MAX) -> list[RecordBatch]:
    """The batches of a fetch response; one that the response's size limit cut off at the end is left out."""
    view = memoryview(buffer)
    batches = []
    position = 0
    while len(view) - position >= LENGTH_OVERHEAD:
        size = LENGTH_OVERHEAD + int.from_bytes(view[position + 8 : position + LENGTH_OVERHEAD], "big", signed=True)
        if size > len(view) - position:
            break
        batches.append(RecordBatch(view[position:], verify, decoded_max))
        position += size
    return batches

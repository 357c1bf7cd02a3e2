"""The operations of a multi and the facts that ZooKeeper keeps about a znode."""

from dataclasses import dataclass

# ZooKeeper drops the connection on a request of 1 MiB (jute.maxbuffer), without a word. Stay below it, with room for the
# headers that the server adds when it forwards the request.
REQUEST_SIZE_MAX = 1_000_000

# Length fields, flags and the access list that every operation carries.
_OPERATION_OVERHEAD = 64


@dataclass(frozen=True, slots=True)
class Stat:
    """What ZooKeeper knows about a znode besides its data."""

    version: int
    czxid: int
    mzxid: int
    ephemeral_owner: int
    mtime_ms: int = 0
    """When it was last written, by the clock of ZooKeeper's leader."""


@dataclass(frozen=True, slots=True)
class Create:
    """Create a znode; fails if it exists or its parent does not."""

    path: str
    data: bytes = b""
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    """Replace a znode's data if it still has this version."""

    path: str
    data: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a znode if it still has this version."""

    path: str
    version: int


@dataclass(frozen=True, slots=True)
class Check:
    """Change nothing, but fail the multi unless the znode has this version."""

    path: str
    version: int


Operation = Create | SetData | Delete | Check

OperationResult = str | Stat | None
"""The path of a Create, the new Stat of a SetData, None for Delete and Check."""


def request_size(operation: Operation) -> int:
    """About how many bytes the operation takes in a request."""
    data = operation.data if isinstance(operation, Create | SetData) else b""
    return len(operation.path) + len(data) + _OPERATION_OVERHEAD


def in_chunks(operations: list[Operation], size_max: int = REQUEST_SIZE_MAX // 2) -> list[list[Operation]]:
    """Cut operations, in order, into lists that each fit into one multi."""
    chunks: list[list[Operation]] = []
    size = size_max
    for operation in operations:
        if size + request_size(operation) > size_max:
            chunks.append([])
            size = 0
        chunks[-1].append(operation)
        size += request_size(operation)
    return chunks

"""What a client may do with topics, groups and the cluster, as Kafka tells it: bits by its numbers of operations (KIP-430).

Without access lists everybody may do everything that there is for a kind of resource.
"""

from enum import IntEnum
from typing import Final


class AclOperation(IntEnum):
    """Kafka's numbers."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


def bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


_CONFIGS = (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)

OF_TOPIC: Final = bits(
    AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE, AclOperation.ALTER,
    AclOperation.DESCRIBE, *_CONFIGS,
)  # fmt: skip
OF_GROUP: Final = bits(AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE, *_CONFIGS)
OF_CLUSTER: Final = bits(
    AclOperation.CREATE, AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.CLUSTER_ACTION,
    AclOperation.IDEMPOTENT_WRITE, *_CONFIGS,
)  # fmt: skip

NOT_ASKED: Final = -(2**31)
"""What stands where a client did not ask."""

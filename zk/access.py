"""Who may do what in ZooKeeper: the brokers' user and password, and the access list of every znode. Pure.

As in Kafka: the brokers may do everything with what is theirs, all others may read it (tools do), but for what is secret. A
znode's list says nothing of its deletion, which is a right on its *parent*: so all parents are closed too, up to the root.
"""

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ottla.wire.errors import ConfigError
from ottla.zk.znodes.cluster import SecretZnode
from ottla.zk.znodes.controller import ControllerEpochZnode, ControllerZnode
from ottla.zk.znodes.persistent_paths import PERSISTENT_PATHS

READ, WRITE, CREATE, DELETE, ADMIN = 1, 2, 4, 8, 16
ALL = READ | WRITE | CREATE | DELETE | ADMIN

SECRET_PATHS = (SecretZnode.PATH, "/config/users")
"""What nobody else may read, with all below it; Kafka keeps its users' credentials in the second."""

OWN_ROOTS = tuple(
    sorted({f"/{path.split('/')[1]}" for path in (*PERSISTENT_PATHS, ControllerZnode.PATH, ControllerEpochZnode.PATH)})
)
"""The top of all that brokers write. What else stands beside them is somebody else's."""

DIGEST_MAX = 512
"""A line longer than this is no user:password, but a file that was named by mistake."""

# ZooKeeper reads these bytes in whatever its machine's locale is: only ASCII is the same everywhere.
_DIGEST = re.compile(r"[!-9;-~]{1,64}:[ -~]{1,256}")


class AclId(NamedTuple):
    """Whom an entry is for; in the shape that kazoo writes."""

    scheme: str
    id: str


class AclEntry(NamedTuple):
    """Some rights of somebody."""

    perms: int
    id: AclId


Acl = tuple[AclEntry, ...]

_ANYONE = AclId("world", "anyone")
OPEN_ACL: Acl = (AclEntry(ALL, _ANYONE),)
_ANYONE_READS = AclEntry(READ, _ANYONE)
# ZooKeeper puts the session's own user here: shorter than the user's name and hash in each of a topic's thousand creations.
_CREATOR_ALL = AclEntry(ALL, AclId("auth", ""))


@dataclass(frozen=True, slots=True)
class Digest:
    """A user and a password for ZooKeeper's digest scheme: ``user:password``. Neither text nor repr shows the password."""

    text: str = field(repr=False)

    def __post_init__(self) -> None:
        if not _DIGEST.fullmatch(self.text):
            raise ConfigError(
                "zookeeper.digest is not user:password",
                hint="both in printable ASCII, the user without a colon or a space; the value is not shown here",
            )

    @property
    def user(self) -> str:
        return self.text.partition(":")[0]

    def __str__(self) -> str:
        return f"digest of user {self.user}"

    @property
    def acl_id(self) -> AclId:
        """How access lists name this user."""
        digest = base64.b64encode(hashlib.sha1(self.text.encode()).digest()).decode()
        return AclId("digest", f"{self.user}:{digest}")


def read_digest(path: Path) -> Digest:
    """The digest in a file: its one line."""
    try:
        with path.open("rb") as file:
            text = file.read(DIGEST_MAX).decode("ascii", "replace").strip("\r\n")
    except OSError as error:
        raise ConfigError(
            f"zookeeper.digest.file={path} cannot be read: {error.strerror}",
            hint="it has one line, user:password, and belongs to the user that the broker runs as",
        ) from None
    try:
        return Digest(text)
    except ConfigError as error:
        raise ConfigError(f"zookeeper.digest.file={path} does not hold user:password", hint=error.hint) from None


def is_secret(path: str) -> bool:
    return any(path == secret or path.startswith(secret + "/") for secret in SECRET_PATHS)


def acl_at_creation(path: str) -> Acl:
    """What a session with a digest gives to a znode that it creates."""
    return (_CREATOR_ALL,) if is_secret(path) else (_CREATOR_ALL, _ANYONE_READS)


def closed_acl(path: str, digest: Digest) -> Acl:
    """The same list as it stands in ZooKeeper then."""
    mine = AclEntry(ALL, digest.acl_id)
    return (mine,) if is_secret(path) else (mine, _ANYONE_READS)


def lets_others_write(acl: Sequence[AclEntry]) -> bool:
    return any(entry.id == _ANYONE and entry.perms & ~READ for entry in acl)


def same_rights(one: Sequence[AclEntry], other: Sequence[AclEntry]) -> bool:
    """The order of a list means nothing."""
    return sorted(one) == sorted(other)

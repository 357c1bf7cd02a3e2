"""Who may do what in ZooKeeper, seen without the code under test: kazoo alone."""

from collections.abc import Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.security import ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_digest_acl

from ottla.zk.access import Digest
from tests.support.machine import scaled

WAIT_S = scaled(30.0)
SECRETS = ("/ottla/secret", "/config/users")


@contextmanager
def kazoo(connect: str, digest: Digest | None = None) -> Iterator[KazooClient]:
    """A session of that user, or of a stranger."""
    client = KazooClient(hosts=connect, auth_data=[("digest", digest.text)] if digest is not None else None)
    client.start(timeout=WAIT_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def wanted(path: str, digest: Digest) -> list[ACL]:
    user, _, password = digest.text.partition(":")
    owner = make_digest_acl(user, password, all=True)
    return [owner] if path.startswith(SECRETS) else [owner, *READ_ACL_UNSAFE]


def tree(client: KazooClient, path: str = "/") -> list[str]:
    """All znodes below a path, and itself; those of ZooKeeper itself are not ours."""
    try:
        names = client.get_children(path)
    except (NoNodeError, NoAuthError):
        names = []
    below = [f"{path.rstrip('/')}/{name}" for name in sorted(names)]
    return [path, *(found for child in below if child != "/zookeeper" for found in tree(client, child))]


def open_to_others(client: KazooClient, digest: Digest, path: str = "/") -> dict[str, list[ACL]]:
    """Every znode whose list is not what it should be; one that is gone by now does not count."""
    wrong = {}
    for found in tree(client, path):
        try:
            acl, _ = client.get_acls(found)
        except NoNodeError:
            continue
        if sorted(acl) != sorted(wanted(found.removeprefix(path.rstrip("/")) or "/", digest)):
            wrong[found] = acl
    return wrong


def trespasses(stranger: KazooClient, paths: list[str]) -> list[str]:
    """What somebody could do to these znodes, and must not; nothing is left changed by one who could."""
    attempts = {
        "create below": lambda path: stranger.delete(stranger.create(f"{path.rstrip('/')}/trespass")),
        "write": lambda path: stranger.set(path, stranger.get(path)[0]),
        "delete": stranger.delete,
        "open": lambda path: stranger.set_acls(path, OPEN_ACL_UNSAFE),
        "delete in a multi": lambda path: _commit(stranger, path),
    }
    done = []
    for path in paths:
        for name, attempt in attempts.items():
            if path == "/" and name.startswith("delete"):
                continue  # ZooKeeper lets nobody
            try:
                attempt(path)
                done.append(f"{name} {path}")
            except NoAuthError:
                pass
            except Exception as error:
                done.append(f"{name} {path}: {error!r}")
    return done


def _commit(stranger: KazooClient, path: str) -> None:
    transaction = stranger.transaction()
    transaction.delete(path)
    [result] = transaction.commit()
    if isinstance(result, Exception):
        raise result

"""Who owns which znode, and a password that is never shown."""

from pathlib import Path

import pytest
from kazoo.security import make_digest_acl_credential

from ottla.wire.errors import ConfigError
from ottla.zk.access import (
    ALL,
    OPEN_ACL,
    OWN_ROOTS,
    READ,
    AclEntry,
    AclId,
    Digest,
    acl_at_creation,
    closed_acl,
    is_secret,
    read_digest,
    same_rights,
)

DIGEST = Digest("ottla:open:sesame")
ANYONE_READS = AclEntry(READ, AclId("world", "anyone"))


@pytest.mark.parametrize(
    ("path", "secret"),
    [
        ("/ottla/secret", True),
        ("/ottla/secret/more", True),
        ("/config/users", True),
        ("/config/users/alice", True),
        ("/config/users-guide", False),
        ("/ottla", False),
        ("/ottla/secretary", False),
        ("/brokers/topics/secret", False),
        ("/", False),
    ],
)
def test_only_what_is_secret_is_hidden_from_others(path: str, secret: bool) -> None:
    assert is_secret(path) == secret
    owner = AclEntry(ALL, AclId("digest", make_digest_acl_credential("ottla", "open:sesame")))
    assert closed_acl(path, DIGEST) == ((owner,) if secret else (owner, ANYONE_READS))
    assert acl_at_creation(path)[1:] == (() if secret else (ANYONE_READS,))


def test_no_list_gives_others_more_than_reading() -> None:
    for path in ("/", "/brokers/ids", "/controller", "/admin/delete_topics"):
        for entry in (*acl_at_creation(path), *closed_acl(path, DIGEST)):
            assert entry.perms == READ or entry.id.scheme in ("auth", "digest")


def test_all_that_brokers_write_stands_below_their_own_roots() -> None:
    assert {"/brokers", "/config", "/admin", "/controller", "/controller_epoch", "/ottla", "/cluster"} <= set(OWN_ROOTS)
    assert all(root.count("/") == 1 for root in OWN_ROOTS)
    assert "/zookeeper" not in OWN_ROOTS


def test_order_of_a_list_does_not_matter() -> None:
    first, second = closed_acl("/", DIGEST)
    assert same_rights([second, first], [first, second])
    assert not same_rights([first, second], OPEN_ACL)


def test_password_is_not_shown() -> None:
    for shown in (repr(DIGEST), str(DIGEST), f"{DIGEST}", f"{[DIGEST]}"):
        assert "sesame" not in shown
    assert "ottla" in str(DIGEST)


@pytest.mark.parametrize(
    "text", ["", "ottla", ":s3cret", "ottla:", "a b:c", "ottla:pass\nword", "öttla:x", "o:" + "x" * 257]
)
def test_a_digest_that_is_none_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Digest(text)
    assert refused.value.hint
    assert not text or text not in str(refused.value) + refused.value.hint


def test_a_file_has_it_in_its_only_line(tmp_path: Path) -> None:
    path = tmp_path / "digest"
    for content in ("ottla:s3cret", "ottla:s3cret\n", "ottla:s3cret\r\n"):
        path.write_bytes(content.encode())
        assert read_digest(path) == Digest("ottla:s3cret")


@pytest.mark.parametrize("content", [b"", b"\n", b"ottla:a\nottla:b\n", b"\xff\xfe:x", b"x" * 5000])
def test_a_file_that_has_none_is_named_and_not_shown(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "digest"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="does not hold user:password") as refused:
        read_digest(path)
    assert str(path) in str(refused.value)
    assert "ottla:a" not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file") as refused:
        read_digest(tmp_path / "nowhere")
    assert str(tmp_path / "nowhere") in str(refused.value)

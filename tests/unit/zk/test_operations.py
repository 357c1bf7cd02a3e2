"""Multis that ZooKeeper accepts, and errors that tell what happened."""

from ottla.zk.errors import (
    AuthenticationFailed,
    BadVersion,
    ConnectionLost,
    MultiFailed,
    NoNode,
    NotAuthorized,
    RolledBack,
    ZkError,
    is_answer,
    zk_error,
)
from ottla.zk.operations import REQUEST_SIZE_MAX, Check, Create, Delete, Operation, SetData, in_chunks, request_size


def test_chunks_keep_order_and_fit() -> None:
    operations: list[Operation] = [Create(f"/{i}", b"x" * (i % 300)) for i in range(10_000)]
    chunks = in_chunks(operations)
    assert [operation for chunk in chunks for operation in chunk] == operations
    assert len(chunks) > 1
    assert all(sum(map(request_size, chunk)) <= REQUEST_SIZE_MAX // 2 for chunk in chunks)


def test_nothing_is_no_chunk_and_a_giant_stands_alone() -> None:
    assert in_chunks([]) == []
    giant = SetData("/giant", b"x" * 900_000, 0)
    assert in_chunks([Check("/a", 0), giant, Delete("/b", 0)]) == [[Check("/a", 0)], [giant], [Delete("/b", 0)]]


def test_multi_names_the_operation_at_fault() -> None:
    failed = MultiFailed([RolledBack(), BadVersion(), RolledBack()], ["/a", "/b", "/c"])
    assert (failed.index, type(failed.cause)) == (1, BadVersion)
    assert "operation 1 on /b: BadVersion" in str(failed)


def test_only_what_the_server_said_counts_as_an_answer() -> None:
    assert isinstance(zk_error(-101, "/a", ""), NoNode)
    assert isinstance(zk_error(-4, "/a", ""), ConnectionLost)
    assert type(zk_error(None, "/a", ValueError("odd"))) is ZkError
    assert [is_answer(code) for code in (-101, -110, -4, -112, -999, None)] == [True, True, False, False, False, False]


def test_want_of_rights_is_an_answer_and_says_what_to_look_at() -> None:
    refused = zk_error(-102, "/ottla/secret", "")
    assert isinstance(refused, NotAuthorized)
    assert "/ottla/secret" in str(refused)
    assert refused.hint is not None
    assert "zookeeper.digest" in refused.hint
    assert MultiFailed([RolledBack(), refused], ["/a", "/b"]).hint == refused.hint
    assert is_answer(-102)
    assert isinstance(zk_error(-115, "/", ""), AuthenticationFailed)
    assert not is_answer(-115), "kazoo says so of requests that it never sent"

"""Frames are found in any stream however it is cut into reads, and nobody makes us hold memory for bytes he did not send."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.wire.errors import RemoteProtocolError
from ottla.wire.framing import CHUNK, GROWTH, LENGTH, PARK_MAX, TRUSTED_MAX, BufferPool, FrameReader


def framed(*bodies: bytes) -> bytes:
    return b"".join(LENGTH.pack(len(body)) + body for body in bodies)


def feed(reader: FrameReader, data: bytes) -> list[bytes]:
    """Receive all of ``data`` in reads as large as the reader allows, and give the frames it makes."""
    frames = []
    while data:
        room = reader.get_buffer()
        count = min(len(room), len(data))
        assert count > 0, "a reader must always have room for a byte"
        room[:count] = data[:count]
        data = data[count:]
        reader.received(count)
        while (frame := reader.next_frame()) is not None:
            frames.append(bytes(frame))
    return frames


sizes = st.one_of(st.integers(1, 40), st.integers(PARK_MAX - 8, PARK_MAX + 8), st.integers(CHUNK - 8, CHUNK + 8))


@pytest.mark.parametrize("detach", [False, True])
@settings(max_examples=60, deadline=None)
@given(lengths=st.lists(sizes, max_size=8), data=st.data())
def test_frames_are_the_same_however_the_stream_is_cut(detach: bool, lengths: list[int], data: st.DataObject) -> None:
    bodies = [bytes([number % 251]) * length for number, length in enumerate(lengths)]
    stream = framed(*bodies)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    pool = BufferPool()
    reader = FrameReader(pool, trusted=detach, detach=detach)
    got: list[bytes] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        got += feed(reader, stream[start:end])
    assert got == bodies
    assert not reader.partial
    assert pool.in_use == 0


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_streams_that_share_a_pool_do_not_disturb_each_other(data: st.DataObject) -> None:
    pool = BufferPool()
    lengths = data.draw(st.lists(st.lists(sizes, min_size=1, max_size=4), min_size=2, max_size=4))
    bodies = [[bytes([50 * n + m]) * length for m, length in enumerate(each)] for n, each in enumerate(lengths)]
    left = [framed(*each) for each in bodies]
    flags = st.booleans()
    readers = [FrameReader(pool, trusted=data.draw(flags), detach=data.draw(flags)) for _ in bodies]
    got: list[list[bytes]] = [[] for _ in bodies]
    while any(left):
        number = data.draw(st.sampled_from([number for number, rest in enumerate(left) if rest]))
        cut = data.draw(st.integers(len(left[number]) // 2 + 1, len(left[number])) | st.sampled_from([1, 3, 5]))
        got[number] += feed(readers[number], left[number][:cut])
        left[number] = left[number][cut:]
    assert got == bodies
    assert pool.in_use == 0


def test_a_stream_that_is_alone_receives_frames_in_pieces_without_a_copy() -> None:
    pool = BufferPool()
    reader = FrameReader(pool)
    for _ in range(5):
        stream = framed(b"x" * (CHUNK // 2), b"y" * (CHUNK // 3))
        cut = CHUNK // 5
        assert feed(reader, stream[:cut]) == []
        assert pool.in_use == 0, "the beginning lies where it was received"
        assert len(feed(reader, stream[cut:])) == 2


def test_what_is_left_for_later_survives_another_stream() -> None:
    pool = BufferPool()
    one, other = FrameReader(pool), FrameReader(pool)
    room = one.get_buffer()
    stream = framed(b"first", b"second")
    room[: len(stream)] = stream
    one.received(len(stream))
    assert bytes(one.next_frame() or b"") == b"first"
    one.keep()
    assert feed(other, framed(b"z" * 100)) == [b"z" * 100]
    assert bytes(one.next_frame() or b"") == b"second"
    assert one.next_frame() is None
    assert pool.in_use == 0


def test_every_single_cut_of_a_short_stream_gives_the_same_frames() -> None:
    bodies = [b"a", b"bc", b"def" * 3]
    stream = framed(*bodies)
    for cut in range(len(stream) + 1):
        reader = FrameReader(BufferPool())
        assert feed(reader, stream[:cut]) + feed(reader, stream[cut:]) == bodies


def test_a_stream_byte_by_byte_gives_the_same_frames() -> None:
    reader = FrameReader(BufferPool())
    stream = framed(b"hello", b"x" * 300)
    assert [frame for byte in stream for frame in feed(reader, bytes([byte]))] == [b"hello", b"x" * 300]


@pytest.mark.parametrize("size", [0, 1025, 2**31 - 1, 2**31, 2**32 - 1])
def test_a_length_out_of_bounds_is_refused_before_anything_is_held_for_it(size: int) -> None:
    pool = BufferPool()
    reader = FrameReader(pool, frame_max=1024)
    with pytest.raises(RemoteProtocolError, match=f"a frame of {size} bytes"):
        feed(reader, LENGTH.pack(size))
    assert pool.in_use <= CHUNK
    reader.close()
    assert pool.in_use == 0


@pytest.mark.parametrize(
    ("head", "hint"), [(b"GET ", "HTTP"), (b"POST", "HTTP"), (b"\x16\x03\x01\x02", "TLS"), (b"\x15\x03\x03\x00", "TLS")]
)
def test_a_foreign_protocol_is_guessed_in_the_error(head: bytes, hint: str) -> None:
    with pytest.raises(RemoteProtocolError, match=f"looks like {hint}"):
        feed(FrameReader(BufferPool()), head + b"rest")


def test_a_lying_length_holds_no_more_than_what_was_sent() -> None:
    pool = BufferPool()
    reader = FrameReader(pool)
    feed(reader, LENGTH.pack(50 * 1024 * 1024) + b"0123456789")
    assert pool.in_use == LENGTH.size + 10


def test_a_buffer_grows_with_what_arrives_and_never_past_the_frame() -> None:
    pool = BufferPool()
    reader = FrameReader(pool)
    announced = 5 * 1024 * 1024
    stream = framed(b"z" * announced)
    sent = 0
    while sent < len(stream) - 1:
        step = min(100_000, len(stream) - 1 - sent)
        feed(reader, stream[sent : sent + step])
        sent += step
        assert pool.in_use <= max(CHUNK, sent * GROWTH, sent)
        assert pool.in_use <= announced + LENGTH.size + CHUNK
    assert feed(reader, stream[sent:]) == [stream[4:]]
    assert pool.in_use == 0


@pytest.mark.parametrize("detach", [False, True])
def test_a_long_frame_in_small_pieces_is_not_copied_again_for_each_piece(
    detach: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    take = BufferPool.take

    def counted(pool: BufferPool, size: int) -> bytearray:
        taken.append(size)
        return take(pool, size)

    monkeypatch.setattr(BufferPool, "take", counted)
    reader = FrameReader(BufferPool(), trusted=detach, detach=detach)
    body = b"s" * (TRUSTED_MAX + CHUNK)
    stream = framed(body)
    start = PARK_MAX + 1
    assert feed(reader, stream[:start]) == []
    got = [frame for at in range(start, len(stream), 4000) for frame in feed(reader, stream[at : at + 4000])]
    assert got == [body]
    assert len(taken) < 12
    assert sum(taken) < 3 * len(body)


def test_a_full_pool_refuses_those_who_hold_memory_and_nobody_else() -> None:
    half = LENGTH.pack(CHUNK) + b"h" * (PARK_MAX + 1)
    pool = BufferPool(limit=2 * GROWTH * len(half))
    holders = [FrameReader(pool) for _ in range(3)]
    for reader in holders[:2]:
        feed(reader, half)
    with pytest.raises(RemoteProtocolError, match="half-received"):
        feed(holders[2], half)
    assert feed(FrameReader(pool), framed(b"whole", b"frames")) == [b"whole", b"frames"]
    for reader in holders:
        reader.close()
    assert pool.in_use == 0


def test_growth_past_the_pool_limit_is_refused() -> None:
    pool = BufferPool(limit=3 * CHUNK)
    reader = FrameReader(pool)
    with pytest.raises(RemoteProtocolError, match="half-received"):
        feed(reader, framed(b"g" * 8 * CHUNK))


def test_two_thousand_slow_beginnings_cost_less_than_a_megabyte() -> None:
    pool = BufferPool()
    for _ in range(2000):
        feed(FrameReader(pool), LENGTH.pack(60_000) + b"slow")
    assert pool.in_use < 1024 * 1024


def test_a_thousand_half_frames_cost_no_more_than_the_whole_ones() -> None:
    pool = BufferPool()
    readers = [FrameReader(pool) for _ in range(1000)]
    stream = framed(b"h" * 65_536)
    for reader in readers:
        assert feed(reader, stream[:40_000]) == []
    assert pool.in_use <= len(readers) * len(stream)
    assert all(len(feed(reader, stream[40_000:])) == 1 for reader in readers)
    assert pool.in_use == 0


def test_an_idle_stream_holds_nothing() -> None:
    pool = BufferPool()
    reader = FrameReader(pool)
    feed(reader, framed(b"one", b"two"))
    assert pool.in_use == 0


def test_borrowed_frames_are_views_of_the_receive_buffer() -> None:
    reader = FrameReader(BufferPool())
    room = reader.get_buffer()
    stream = framed(b"first", b"second")
    room[: len(stream)] = stream
    reader.received(len(stream))
    frame = reader.next_frame()
    assert frame is not None
    assert bytes(frame) == b"first"
    room[4:9] = b"FIRST"  # the same memory
    assert bytes(frame) == b"FIRST"


def test_detached_frames_survive_what_comes_after_them() -> None:
    reader = FrameReader(BufferPool(), trusted=True, detach=True)
    kept: list[memoryview] = []
    bodies = [b"a" * 10, b"b" * (CHUNK * 2), b"c" * 10, b"d" * (CHUNK + 1)]
    stream = framed(*bodies)
    while stream:
        room = reader.get_buffer()
        count = min(len(room), len(stream), 100_000)
        room[:count] = stream[:count]
        stream = stream[count:]
        reader.received(count)
        while (frame := reader.next_frame()) is not None:
            kept.append(frame)
    assert [bytes(frame) for frame in kept] == bodies


def test_a_large_detached_frame_takes_its_receive_buffer_with_it() -> None:
    pool = BufferPool()
    reader = FrameReader(pool, trusted=True, detach=True)
    body = b"L" * (CHUNK * 4)
    stream = framed(body)
    feed(reader, stream[:1000])
    room = reader.get_buffer()
    assert len(room) == len(stream) - 1000, "exactly the rest of the frame is received into its own buffer"
    room[:] = stream[1000:]
    reader.received(len(room))
    frame = reader.next_frame()
    assert frame is not None
    room[-1:] = b"!"  # the same memory: nothing was copied
    assert bytes(frame[-1:]) == b"!"
    assert pool.in_use == 0


def test_a_detached_frame_past_the_trusted_size_gets_memory_as_it_arrives() -> None:
    pool = BufferPool()
    reader = FrameReader(pool, trusted=True, detach=True)
    feed(reader, LENGTH.pack(90 * 1024 * 1024) + b"tiny")
    assert pool.in_use <= TRUSTED_MAX


def test_closing_gives_all_memory_back() -> None:
    pool = BufferPool()
    for body in (b"small", b"x" * (CHUNK * 3)):
        reader = FrameReader(pool)
        feed(reader, framed(body)[:-1])
        reader.close()
    assert pool.in_use == 0

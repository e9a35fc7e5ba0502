"""The codec of the pipe: whole, byte by byte, with a tail, and against nonsense."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncpool import frames
from asyncpool.frames import BadFrame, Decoder, Frame

payloads = st.one_of(
    st.binary(max_size=40),
    st.integers(-3, 3).map(lambda more: b"x" * (frames.BULK + more)),
)
some_frames = st.lists(
    st.tuples(
        st.sampled_from(sorted(frames.KINDS)),
        st.integers(0, 2**32 - 1),
        st.integers(0, 2**32 - 1),
        st.integers(0, 2**64 - 1),
        payloads,
    ),
    max_size=6,
)


def encoded(sent: list[Frame]) -> bytes:
    return b"".join(
        frames.encode(kind, attempt=attempt, extra=extra, number=number, payload=bytes(payload))
        for kind, attempt, extra, number, payload in sent
    )


@given(some_frames)
def test_what_was_encoded_comes_out(sent: list[Frame]) -> None:
    assert Decoder().feed(encoded(sent)) == sent


@given(some_frames, st.lists(st.integers(0, 4 * frames.BULK), max_size=30))
def test_however_the_stream_is_chopped(sent: list[Frame], cuts: list[int]) -> None:
    data, decoder, got = encoded(sent), Decoder(), list[Frame]()
    for start, end in pairwise([0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]):
        got += decoder.feed(data[start:end])
    assert got == sent


def test_byte_by_byte() -> None:
    sent: list[Frame] = [(frames.JOB, 1, 2, 3, b"abc"), (frames.STOP, 0, 0, 0, b"")]
    decoder, got = Decoder(), list[Frame]()
    for byte in encoded(sent):
        got += decoder.feed(bytes([byte]))
    assert got == sent


@given(some_frames, st.binary(min_size=1, max_size=frames.HEADER.size - 1))
def test_a_tail_waits_for_its_rest(sent: list[Frame], rest: bytes) -> None:
    decoder = Decoder()
    last = frames.encode(frames.ACK, number=7)
    cut = len(rest) % len(last) or 1
    assert decoder.feed(encoded(sent) + last[:cut]) == sent
    assert decoder.feed(last[cut:]) == [(frames.ACK, 0, 0, 7, b"")]


@pytest.mark.parametrize("kind", sorted(set(range(256)) - frames.KINDS))
def test_an_unknown_kind_is_refused(kind: int) -> None:
    with pytest.raises(BadFrame):
        Decoder().feed(frames.HEADER.pack(kind, 0, 0, 0, 0))


def test_a_forged_length_is_refused_at_once() -> None:
    with pytest.raises(BadFrame, match="1099511627776"):
        Decoder().feed(frames.HEADER.pack(frames.RETURNED, 1, 0, 1, 2**40))


def test_a_large_length_allocates_nothing_before_its_bytes_arrive() -> None:
    decoder = Decoder()
    assert decoder.feed(frames.HEADER.pack(frames.RETURNED, 1, 0, 1, frames.MAX_PAYLOAD)) == []
    assert decoder.missing == frames.MAX_PAYLOAD
    assert decoder._bulk.__sizeof__() < 1000


@given(st.binary(max_size=200))
def test_nonsense_never_gives_anything_but_frames_or_bad_frame(data: bytes) -> None:
    decoder = Decoder()
    try:
        got = decoder.feed(data)
    except BadFrame:
        return
    assert all(frame[0] in frames.KINDS for frame in got)


def test_what_comes_with_nonsense_counts() -> None:
    ack = frames.encode(frames.ACK, attempt=1, number=7)
    with pytest.raises(BadFrame) as caught:
        Decoder().feed(ack + b"\xff" * 100)
    assert caught.value.before == [(frames.ACK, 1, 0, 7, b"")]

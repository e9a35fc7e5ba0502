from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncpool import Retry


def test_the_third_crash_is_one_too_many_by_default() -> None:
    retry = Retry()
    assert [retry.gives_up_after_crashes(n) for n in (1, 2, 3, 4)] == [False, False, True, True]


def test_none_never_gives_up() -> None:
    assert not Retry(max_crashes=None).gives_up_after_crashes(10**9)


def test_waits_grow_up_to_a_bound() -> None:
    retry = Retry(delay=0.5, factor=2, max_delay=3, jitter=False)
    assert [retry.wait_before(n, lambda: 0.9) for n in (1, 2, 3, 4)] == [0.5, 1.0, 2.0, 3.0]
    assert retry.wait_before(10**6, lambda: 0.9) == 3


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_jitter_takes_away_at_most_half(retry: int, drawn: float) -> None:
    full = Retry(delay=0.1, jitter=False).wait_before(retry, lambda: 0.0)
    assert full / 2 <= Retry(delay=0.1).wait_before(retry, lambda: drawn) <= full


@pytest.mark.parametrize(
    "bad", [{"max_crashes": 0}, {"max_errors": -1}, {"delay": -1}, {"factor": 0.5}]
)
def test_nonsense_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        Retry(**bad)


def test_it_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Retry().delay = 1.0  # type: ignore[misc]

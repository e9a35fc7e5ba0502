"""Where a journal is and how it is kept is checked where it is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from asyncpool.journal.options import DAY, Journal


def test_the_usual() -> None:
    journal = Journal("jobs.log")
    assert (journal.durable_results, journal.retention) == (False, 30 * DAY)
    assert repr(journal) == "Journal(path='jobs.log', durable_results=False, retention=2592000.0)"
    assert journal == Journal("jobs.log")


def test_a_path_may_be_one() -> None:
    assert Journal(Path("jobs.log")).path == Path("jobs.log")


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_a_path_that_is_none(path: Any) -> None:
    with pytest.raises(ValueError, match="a journal's path is a text"):
        Journal(path)


@pytest.mark.parametrize("path", [None, 7, b"jobs.log"])
def test_what_is_no_path(path: Any) -> None:
    with pytest.raises(TypeError, match="PathLike"):
        Journal(path)


def test_durable_or_not() -> None:
    assert Journal("a", durable_results=True).durable_results
    with pytest.raises(TypeError, match="durable_results must be a bool"):
        Journal("a", durable_results=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("retention", [0, 0.5, 10 * DAY])
def test_retention(retention: float) -> None:
    assert Journal("a", retention=retention).retention == retention


@pytest.mark.parametrize("retention", [-1, float("nan"), float("inf")])
def test_a_retention_that_makes_no_sense(retention: float) -> None:
    with pytest.raises(ValueError, match="retention must be"):
        Journal("a", retention=retention)


@pytest.mark.parametrize("retention", [None, "a week", True])
def test_a_retention_that_is_no_number(retention: Any) -> None:
    with pytest.raises(TypeError, match="retention must be a number of seconds"):
        Journal("a", retention=retention)

"""Errors are a small tree, take plain text first, and keep their facts through pickling."""

from __future__ import annotations

import pickle

import pytest

import asyncpool
from asyncpool import errors

EVERY = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.AsyncPoolError)
]


@pytest.mark.parametrize("kind", EVERY)
def test_users_may_raise_them_with_a_text(kind: type[errors.AsyncPoolError]) -> None:
    error = kind("what happened")
    assert str(error) == "what happened"
    assert getattr(error, "job_id", None) is None
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == "what happened"


def test_facts_survive_pickling() -> None:
    error = errors.WorkerCrashed("it died", job_id="7", pid=42, signal=11, stderr="oh")
    copy = pickle.loads(pickle.dumps(error))
    assert vars(copy) == vars(error)
    assert (copy.job_id, copy.pid, copy.signal, copy.stderr) == ("7", 42, 11, "oh")


def test_the_tree() -> None:
    assert issubclass(errors.JobTimeout, TimeoutError)
    assert issubclass(errors.PoolClosed, RuntimeError)
    for kind in (errors.WorkerCrashed, errors.JobTimeout, errors.JobExited):
        assert issubclass(kind, errors.JobError)
    assert issubclass(errors.SerializationError, errors.JobError)


@pytest.mark.parametrize("name", asyncpool.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(asyncpool, name) is not None
    assert name in dir(asyncpool)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = asyncpool.nonsense

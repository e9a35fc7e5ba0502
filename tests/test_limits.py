"""A test that hangs fails and tells where; one whose fixtures hang ends the run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.inner import run_pytest

ASYNC = """
    import asyncio
    async def wait_in_vain() -> None:
        await asyncio.Event().wait()
    async def test_it() -> None:
        await wait_in_vain()
    """

SYNC = """
    import threading
    def test_it() -> None:
        threading.Event().wait()
    """

TEARDOWN = """
    import asyncio, pytest
    @pytest.fixture
    async def trap():
        yield
        await asyncio.Event().wait()
    async def test_it(trap: None) -> None:
        raise LookupError("the test itself failed, which must not disarm the limit")
    """


def test_a_hanging_test_fails_and_the_others_go_on(tmp_path: Path) -> None:
    modules = {"async": ASYNC, "sync": SYNC, "well": "def test_it() -> None: pass"}
    run = run_pytest(modules, tmp_path, limit=1.5)
    assert run.finished.returncode == pytest.ExitCode.TESTS_FAILED, run.finished
    assert run.reports["async"].count("the test hangs") >= 2  # on either loop
    assert "wait_in_vain" in run.reports["async"]
    assert "test_it hangs" in run.reports["sync"]
    assert run.reports["well"] == ""


def test_a_hanging_fixture_ends_the_run(tmp_path: Path) -> None:
    run = run_pytest({"teardown": TEARDOWN}, tmp_path, limit=1.5)
    assert run.finished.returncode == pytest.ExitCode.INTERRUPTED, run.finished
    assert "test_it[asyncio] hangs" in run.finished.stderr

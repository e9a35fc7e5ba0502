"""What holds for all tests: both loops, checks for leaks, time limits, and `--soak`."""

from __future__ import annotations

import resource
import signal
from pathlib import Path

import hypothesis
import pytest

from asyncpool.processes.cpus import usable_cpus
from tests.support.marks import Marks

pytest_plugins = ["tests.support.loops", "tests.support.leaks", "tests.support.limits"]

# How long an example takes says nothing on a machine that runs worker processes beside it.
hypothesis.settings.register_profile("asyncpool", deadline=None)
hypothesis.settings.load_profile("asyncpool")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run the tests that take long, too")


def pytest_xdist_auto_num_workers() -> int:
    return 2 * usable_cpus()


def pytest_sessionstart() -> None:
    # A shell starts what it runs in the background with SIGINT ignored, and that is inherited.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Many tests make a worker crash; none of them wants its core dumped.
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--soak"):
        return
    soaks = [item for item in items if item.get_closest_marker("soak")]
    items[:] = [item for item in items if not item.get_closest_marker("soak")]
    config.hook.pytest_deselected(items=soaks)


@pytest.fixture
def marks(tmp_path: Path) -> Marks:
    """A file to which jobs append a line for each of their runs."""
    return Marks(tmp_path / "marks")

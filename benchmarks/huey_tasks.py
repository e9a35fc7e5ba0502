"""A queue of huey's, durable in SQLite, with one task.

`python -m benchmarks.huey_tasks FILE WORKERS KEEP` is a consumer of it, which it starts in the way
of huey's own command line.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .optional import optional
from .workloads import noop

KEEP = "keep"
LOCKED_SECONDS = 30
"""How long a busy machine may keep one of them waiting for the others."""


class HueyQueue:
    """The queue in that file. With `keep_results` that of the task is kept, although it is None.

    Raises NotInstalled.
    """

    def __init__(self, path: str, *, keep_results: bool = False) -> None:
        self._path, self._keep_results = path, keep_results
        self._huey: Any = optional("huey").SqliteHuey(
            filename=path, fsync=True, store_none=keep_results, timeout=LOCKED_SECONDS
        )
        self.put: Callable[[], object] = self._huey.task()(noop)
        """Queue a call of the task."""

    def close(self) -> None:
        self._huey.storage.close()

    def is_done(self, jobs: int) -> bool:
        """Whether that many jobs, all there ever were, have come to their end.

        If no results are kept: whether they were taken from the queue.
        """
        if self._keep_results:
            return bool(self._huey.storage.result_store_size() >= jobs)
        return bool(self._huey.storage.queue_size() == 0)

    def consume(self, workers: int) -> None:
        """Run a consumer in this process, with that many processes below it."""
        self._huey.create_consumer(workers=workers, worker_type="process").run()

    @contextmanager
    def consumer(self, workers: int) -> Iterator[subprocess.Popen[bytes]]:
        """Have a consumer run in another process."""
        arguments = [self._path, str(workers), KEEP if self._keep_results else "drop"]
        command = [sys.executable, "-m", __name__, *arguments]
        # It logs it when the database was locked for long, and tries again.
        with subprocess.Popen(
            command, start_new_session=True, stderr=subprocess.DEVNULL
        ) as process:
            try:
                yield process
            finally:
                os.killpg(process.pid, signal.SIGKILL)


if __name__ == "__main__":
    path, workers, keep = sys.argv[1:]
    HueyQueue(path, keep_results=keep == KEEP).consume(int(workers))

"""Real deaths at random points of a job, for those who want to see their program survive them."""

import os
import random
import signal
from typing import NoReturn

BEFORE_ACK, AFTER_ACK, BEFORE_RESULT, AFTER_RESULT = (
    "before_ack",
    "after_ack",
    "before_result",
    "after_result",
)


class Reaper:
    """Decides at each point whether this worker dies there.

    The draws depend on the seed and on the worker's serial number alone, so a run can be repeated,
    and a replacement does not die exactly like its predecessor.
    """

    def __init__(
        self, rate: float, seed: object, serial: int, points: list[str], deaths: list[str]
    ) -> None:
        self._random = random.Random(f"{seed}/{serial}")
        self._rate = rate
        self._points = points
        self._deaths = deaths
        self._doom = ""

    def draw(self) -> None:
        """Decide the fate of the next job: whether the worker dies, and at which point."""
        doomed = self._random.random() < self._rate
        self._doom = self._random.choice(self._points) if doomed else ""

    def pass_by(self, point: str) -> None:
        """Die here, if so decided."""
        if point == self._doom:
            die(self._random.choice(self._deaths))


def die(how: str) -> NoReturn:
    """End this process: by the signal of that name, or, for `exit`, with code 1."""
    if how != "exit":
        os.kill(os.getpid(), getattr(signal, how))
    os._exit(1)

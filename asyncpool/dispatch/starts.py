"""When the next worker may be started, and when it is hopeless to go on.

Two things go wrong with starts. A worker that never gets ready (no process, no interpreter, a
failing initializer) is retried with growing pauses and given up after a bound. One that gets
ready and dies before it has begun any job was probably killed from outside, so its replacement
comes at once; but a long row of those would spin, and in the end is as hopeless as the first.
"""

from __future__ import annotations

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
FEWEST_TRIES = 5
SYSTEM_PATIENCE = 9.0
"""How long to retry when the system refuses to make a process: it may recover."""
HANGING = 8.0
"""How long a worker may take until it says hello."""
FRUITLESS_FREE = 10
FRUITLESS_BOUND = 100


class Starts:
    """The record of failing starts since the last success."""

    __slots__ = (
        "_anew_at",
        "_anew_from",
        "_counts_from",
        "_failing_since",
        "failures",
        "fruitless",
        "next_at",
    )

    def __init__(self) -> None:
        self.failures = 0
        self.fruitless = 0
        self.next_at = 0.0
        self._failing_since = 0.0
        self._anew_at = 0.0
        self._anew_from = 0  # serial: what began earlier was given up
        self._counts_from = 0  # serial: what began earlier, did so beside one that was counted

    def failed(
        self, now: float, *, serial: int, next_serial: int, begun_at: float, refused: bool
    ) -> bool:
        """Book a worker that did not get ready; tell whether it is hopeless.

        `refused`: the system did not even make a process.
        """
        if serial < self._anew_from:
            return False
        if not self.failures:
            # A start from before is no old failure to whoever came later.
            self._failing_since = max(begun_at, self._anew_at)
        if serial >= self._counts_from:
            self._counts_from = next_serial
            self.failures += 1
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (self.failures - 1))
            self.next_at = now + pause
        elif not self.failures:
            return False  # it was a part of what was forgiven
        elapsed = now - self._failing_since
        if refused:
            return self.failures >= FEWEST_TRIES and elapsed >= SYSTEM_PATIENCE
        return self.failures >= FEWEST_TRIES or elapsed >= HANGING

    def died_unused(self, now: float) -> bool:
        """Book a worker that got ready and died before any ACK; tell whether it is hopeless."""
        self.fruitless += 1
        excess = self.fruitless - FRUITLESS_FREE
        if excess > 0:
            self.next_at = now + min(LONGEST_PAUSE / 4, FIRST_PAUSE / 4 * excess)
        return self.fruitless >= FRUITLESS_BOUND

    def succeeded(self) -> None:
        """A worker got ready."""
        self.failures = 0
        if not self.fruitless:
            self.next_at = 0.0

    def proved(self) -> None:
        """A worker began a job."""
        self.fruitless = 0
        if not self.failures:
            self.next_at = 0.0

    def forgive(self, now: float, first_serial: int) -> None:
        """Begin anew, as after a pause or for a new caller, with the workers from this one on."""
        self._anew_at = now
        self._anew_from = first_serial
        self.failures = self.fruitless = 0
        self.next_at = 0.0

    @property
    def probing(self) -> bool:
        """Whether starts fail now, so that one at a time is enough."""
        return self.failures > 0

    def allowed(self, now: float) -> bool:
        """Whether the pause after the last failure is over."""
        return now >= self.next_at

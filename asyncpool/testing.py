"""For the tests of programs that use a pool: workers that really die, at random points."""

from __future__ import annotations

import signal
from dataclasses import dataclass

_POINTS = ("before_ack", "after_ack", "before_result", "after_result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chaos:
    """Makes workers die while they handle jobs: `Pool(chaos=Chaos(crash_rate=0.3, seed=1))`.

    For each job that a worker takes, it dies with probability `crash_rate`, at one of `points`
    (`before_ack`, `after_ack`, `before_result`, `after_result`) and by one of `deaths`: names of
    signals, or `exit`. With a `seed`, each worker's draws can be repeated. Deaths after the ACK
    are charged to the job: give it a `Retry(max_crashes=None)` to see it through.
    """

    crash_rate: float
    seed: int | None = None
    points: tuple[str, ...] = _POINTS
    deaths: tuple[str, ...] = ("SIGKILL", "SIGSEGV", "exit")

    def __post_init__(self) -> None:
        if self.seed is not None and not isinstance(self.seed, (int, float, str, bytes)):
            raise TypeError(f"seed must be a number or text, not {self.seed!r}")
        if isinstance(self.points, str) or isinstance(self.deaths, str):
            raise TypeError('points and deaths are tuples of names: deaths=("SIGKILL",)')
        if not 0 <= self.crash_rate <= 1:
            raise ValueError(f"crash_rate must be between 0 and 1, not {self.crash_rate!r}")
        unknown = set(self.points) - set(_POINTS)
        if unknown or not self.points:
            raise ValueError(f"points are some of {', '.join(_POINTS)}, not {self.points!r}")
        for death in self.deaths:
            if death != "exit" and death not in signal.Signals.__members__:
                raise ValueError(f"{death!r} is neither the name of a signal nor 'exit'")
        if not self.deaths:
            raise ValueError("deaths must name at least one way to die")

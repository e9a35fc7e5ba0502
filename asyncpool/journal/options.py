"""Where a pool's journal is, and how it is kept."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from ..options import check_seconds
from .disk import Disk

DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Journal:
    """The journal of a pool: `Pool(journal=Journal("jobs.log", durable_results=True))`.

    With `durable_results` an outcome is on disk before the caller sees it; without, it follows
    within about a second. A named job that has ended is remembered for `retention` seconds, by
    default 30 days; of the others the last 1,000 are.
    """

    path: str | os.PathLike[str]
    durable_results: bool = field(default=False, kw_only=True)
    retention: float = field(default=30 * DAY, kw_only=True)
    _disk: Disk = field(default_factory=Disk, kw_only=True, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.path, (str, os.PathLike)):
            raise TypeError(f"a journal's path must be a str or PathLike, not {self.path!r}")
        path = os.fspath(self.path)
        if not isinstance(path, str) or not path or "\0" in path:
            raise ValueError(f"a journal's path is a text that is not empty, not {path!r}")
        if not isinstance(self.durable_results, bool):
            raise TypeError(f"durable_results must be a bool, not {self.durable_results!r}")
        if self.retention is None:  # which stands for no limit elsewhere, and here for a typo
            raise TypeError("retention must be a number of seconds, not None")
        check_seconds("retention", self.retention)

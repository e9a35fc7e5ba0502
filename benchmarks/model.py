"""What a measure is made of, and what running it gives. Values only."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Values = Mapping[str, float]
"""What one sample gave: a figure for each metric, in the metric's unit."""

PPE = "PPE"
"""The peer of every measure: the process pool of the standard library."""


class Never(Exception):
    """A peer does not do at all what is measured; the text says what it did instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How large a sample is. `quick` asks for one that only shows that everything works.

    What must be on a disk is written to `directory`.
    """

    workers: int = 2
    quick: bool = False
    directory: str = field(default_factory=tempfile.gettempdir)


@dataclass(frozen=True, slots=True)
class Subject:
    """Somebody who is measured. `sample` takes one sample and leaves nothing running."""

    name: str
    sample: Callable[[Settings], Awaitable[Values]]
    how: str = ""


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure that each sample gives."""

    name: str
    unit: str


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound on a subject's figure, or on how it compares with another (subject, metric).

    That is its ratio to the figure `of`, or how much it is `above` one.
    """

    subject: str
    metric: str
    relation: Literal[">=", "<="]
    limit: float
    of: tuple[str, str] | None = None
    above: tuple[str, str] | None = None

    def is_met_by(self, value: float) -> bool:
        """Whether the value keeps the bound."""
        return value >= self.limit if self.relation == ">=" else value <= self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Something worth knowing: who is measured, by which figures, and what is hoped for.

    `baseline` is the subject to which the ratios of all rows refer.
    """

    name: str
    about: str
    subjects: tuple[Subject, ...]
    metrics: tuple[Metric, ...]
    goals: tuple[Goal, ...] = ()
    baseline: str = PPE


@dataclass(frozen=True, slots=True)
class Failure:
    """A sample that could not be taken, and why."""

    error: str


Sample = Values | Failure


@dataclass(frozen=True, slots=True)
class Outcome:
    """All samples of a measure, by subject; those of one index were taken in the same round."""

    measure: Measure
    samples: Mapping[str, tuple[Sample, ...]]

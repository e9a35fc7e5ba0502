"""The statistics: medians, spreads, percentiles, and samples compared within a round."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Summary:
    """The median of some figures, and the lowest and the highest of them."""

    median: float
    low: float
    high: float


def summarize(figures: Iterable[float | None]) -> Summary | None:
    """Summarize the figures that there are; None if there are none."""
    known = [figure for figure in figures if figure is not None]
    if not known:
        return None
    return Summary(median(known), min(known), max(known))


def percentile(figures: Sequence[float], percent: float) -> float:
    """Return the smallest figure that `percent` of all figures do not exceed (nearest rank)."""
    if not figures:
        raise ValueError("there is no percentile of nothing")
    if not 0 <= percent <= 100:
        raise ValueError(f"a percentile is between 0 and 100, not {percent!r}")
    ordered = sorted(figures)
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(0, int(rank) - 1)]


def paired_ratios(
    figures: Sequence[float | None], bases: Sequence[float | None]
) -> list[float | None]:
    """Divide each figure by the base of the same round; None where either is missing.

    The machine drifts from round to round, which the ratio within a round does not feel.
    """
    return [
        None if figure is None or not base else figure / base
        for figure, base in zip(figures, bases, strict=True)
    ]


def paired_differences(
    figures: Sequence[float | None], bases: Sequence[float | None]
) -> list[float | None]:
    """Take from each figure the base of the same round; None where either is missing."""
    return [
        None if figure is None or base is None else figure - base
        for figure, base in zip(figures, bases, strict=True)
    ]

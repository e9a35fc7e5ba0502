"""Turns the samples of a measure into rows: one for each subject and metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .model import Failure, Goal, Measure, Metric, Outcome, Sample
from .summary import Summary, paired_differences, paired_ratios, summarize


@dataclass(frozen=True, slots=True)
class Verdict:
    """A goal, and the median of what was reached; None if it could not be measured."""

    goal: str
    reached: float | None
    met: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """All that is known of one metric of one subject. `ratio` is that to the baseline."""

    subject: str
    metric: str
    unit: str
    figures: tuple[float | None, ...]
    summary: Summary | None
    ratio: Summary | None
    verdicts: tuple[Verdict, ...]
    error: str | None
    failures: int


def rows_of(outcome: Outcome) -> list[Row]:
    """Return the rows of a measure; a subject that never gave a figure has one, with its error."""
    return [row for subject in outcome.measure.subjects for row in _rows_of(outcome, subject.name)]


def _rows_of(outcome: Outcome, subject: str) -> list[Row]:
    rows = [_row(outcome, subject, metric) for metric in outcome.measure.metrics]
    return [row for row in rows if row.summary is not None] or rows[:1]


def _row(outcome: Outcome, subject: str, metric: Metric) -> Row:
    samples = outcome.samples[subject]
    figures = _figures(samples, metric.name)
    bases = _figures(outcome.samples[outcome.measure.baseline], metric.name)
    errors = [sample.error for sample in samples if isinstance(sample, Failure)]
    return Row(
        subject=subject,
        metric=metric.name,
        unit=metric.unit,
        figures=tuple(figures),
        summary=summarize(figures),
        ratio=summarize(paired_ratios(figures, bases)),
        verdicts=tuple(
            _verdict(outcome, goal)
            for goal in outcome.measure.goals
            if (goal.subject, goal.metric) == (subject, metric.name)
        ),
        error=errors[0] if errors else None,
        failures=len(errors),
    )


def _figures(samples: Sequence[Sample], metric: str) -> list[float | None]:
    return [None if isinstance(sample, Failure) else sample.get(metric) for sample in samples]


def _verdict(outcome: Outcome, goal: Goal) -> Verdict:
    reached = summarize(_compared(outcome, goal))
    text = goal_text(goal, outcome.measure)
    if reached is None:
        return Verdict(text, None, False)
    return Verdict(text, reached.median, goal.is_met_by(reached.median))


def _compared(outcome: Outcome, goal: Goal) -> list[float | None]:
    """Return what is judged, for each round."""
    figures = _figures(outcome.samples[goal.subject], goal.metric)
    if goal.of is not None:
        return paired_ratios(figures, _figures_at(outcome, goal.of))
    if goal.above is not None:
        return paired_differences(figures, _figures_at(outcome, goal.above))
    return figures


def _figures_at(outcome: Outcome, place: tuple[str, str]) -> list[float | None]:
    subject, metric = place
    return _figures(outcome.samples[subject], metric)


def goal_text(goal: Goal, measure: Measure) -> str:
    """Return the goal for people: `>= 15x PPE`, `<= 4x its p50`, `<= 5 ms`, `<= 1 us above it`."""
    bound = f"{goal.relation} {goal.limit:,g}"
    if goal.of is not None:
        return f"{bound}x {_place_text(goal, goal.of)}"
    unit = next(metric.unit for metric in measure.metrics if metric.name == goal.metric)
    if goal.above is not None:
        return f"{bound} {unit} above {_place_text(goal, goal.above)}"
    return f"{bound} {unit}"


def _place_text(goal: Goal, place: tuple[str, str]) -> str:
    subject, metric = place
    whose = "its" if subject == goal.subject else subject
    what = "" if metric == goal.metric else f" {metric}"
    return f"{whose}{what}"

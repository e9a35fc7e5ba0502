"""What people and programs get to read: a table, and a document for JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from .machine import Machine
from .model import Measure, Outcome, Settings
from .rows import Row, Verdict, rows_of
from .summary import Summary

HEADINGS = ("subject", "metric", "median", "min - max", "ratio", "goal: reached, or error")
ERROR_WIDTH = 100


def text_report(machine: Machine, outcome: Outcome) -> str:
    """Return the table of one measure; about the machine see `facts`."""
    measure = outcome.measure
    rounds = len(next(iter(outcome.samples.values())))
    title = f"{measure.name}: {measure.about}"
    legend = f"{rounds} rounds on {machine.loop}; ratio: to {measure.baseline} in the same round"
    return "\n".join([title, f"  ({legend})", *_table(rows_of(outcome)), *_notes(measure)])


def facts(machine: Machine, settings: Settings) -> str:
    """Return what one must know of the machine to read the figures."""
    size = ", quick: the figures mean little" if settings.quick else ""
    return (
        f"{machine.python} on {machine.system}, {machine.processor}\n"
        f"{machine.cpus} CPUs, load {machine.load}; {settings.workers} workers{size}\n"
        f"loop {machine.loop}; asyncpool {machine.asyncpool}; "
        f"gc as is ({machine.gc}), and a full collection before each sample\n"
        f"files in {settings.directory}: {machine.volume}"
    )


def document(machine: Machine, settings: Settings, outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Return everything as what JSON can hold."""
    return {
        "machine": asdict(machine),
        "settings": asdict(settings),
        "measures": [
            {
                "name": outcome.measure.name,
                "about": outcome.measure.about,
                "baseline": outcome.measure.baseline,
                "rows": [asdict(row) for row in rows_of(outcome)],
            }
            for outcome in outcomes
        ],
    }


def _table(rows: Sequence[Row]) -> list[str]:
    lines = [HEADINGS, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  " + _line(cells, widths) for cells in lines]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
    return "  ".join(padded).rstrip()


def _cells(row: Row) -> tuple[str, ...]:
    if row.summary is None:
        return (row.subject, "", "none", "", "", str(row.error)[:ERROR_WIDTH])
    goals = [_verdict_text(verdict) for verdict in row.verdicts]
    if row.failures:
        goals.append(f"{row.failures} of {len(row.figures)} failed: {row.error}"[:ERROR_WIDTH])
    return (
        row.subject,
        row.metric,
        f"{figure_text(row.summary.median)} {row.unit}",
        _spread_text(row.summary),
        "" if row.ratio is None else f"{figure_text(row.ratio.median)}x",
        "; ".join(goals),
    )


def _verdict_text(verdict: Verdict) -> str:
    if verdict.reached is None:
        return f"{verdict.goal}: not measured"
    return f"{verdict.goal}: {figure_text(verdict.reached)} {'met' if verdict.met else 'MISSED'}"


def _spread_text(summary: Summary) -> str:
    return f"{figure_text(summary.low)} - {figure_text(summary.high)}"


def figure_text(figure: float) -> str:
    """Return a figure with about three digits that count."""
    size = abs(figure)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{figure:,.{digits}f}"


def _notes(measure: Measure) -> list[str]:
    return [f"  {subject.name}: {subject.how}" for subject in measure.subjects if subject.how]

"""The benchmarks: their statistics, their order, and that the command line works."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from benchmarks import runner
from benchmarks.measures import MEASURES
from benchmarks.measures.mixed import load_of, longest_overtaken
from benchmarks.model import Failure, Goal, Measure, Metric, Outcome, Settings, Subject, Values
from benchmarks.report import figure_text
from benchmarks.rows import Row, Verdict, goal_text, rows_of
from benchmarks.summary import (
    Summary,
    paired_differences,
    paired_ratios,
    percentile,
    summarize,
)

ROOT = Path(__file__).parent.parent


class TestStatistics:
    def test_a_summary_is_the_median_and_both_ends(self) -> None:
        assert summarize([3.0, 1.0, 2.0]) == Summary(median=2.0, low=1.0, high=3.0)

    def test_a_summary_of_an_even_count_takes_the_middle(self) -> None:
        assert summarize([1.0, 2.0, 4.0, 100.0]) == Summary(median=3.0, low=1.0, high=100.0)

    def test_a_summary_leaves_out_what_is_missing(self) -> None:
        assert summarize([None, 5.0, None]) == Summary(5.0, 5.0, 5.0)

    @pytest.mark.parametrize("nothing", [[], [None, None]])
    def test_there_is_no_summary_of_nothing(self, nothing: list[float | None]) -> None:
        assert summarize(nothing) is None

    @pytest.mark.parametrize(
        ("percent", "expected"), [(0, 1), (1, 1), (50, 50), (50.5, 51), (99, 99), (100, 100)]
    )
    def test_a_percentile_is_one_of_the_figures(self, percent: float, expected: float) -> None:
        assert percentile(list(range(100, 0, -1)), percent) == expected

    def test_every_percentile_of_one_figure_is_that_figure(self) -> None:
        assert {percentile([7.0], percent) for percent in (0, 50, 99, 100)} == {7.0}

    @pytest.mark.parametrize(("figures", "percent"), [([], 50), ([1.0], 101), ([1.0], -1)])
    def test_a_percentile_that_makes_no_sense(self, figures: list[float], percent: float) -> None:
        with pytest.raises(ValueError, match="percentile"):
            percentile(figures, percent)

    def test_ratios_are_those_of_the_same_round(self) -> None:
        assert paired_ratios([10.0, 30.0], [5.0, 10.0]) == [2.0, 3.0]

    def test_there_is_no_ratio_where_one_side_is_missing(self) -> None:
        assert paired_ratios([1.0, None, 3.0], [None, 2.0, 0.0]) == [None, None, None]

    def test_differences_are_those_of_the_same_round(self) -> None:
        assert paired_differences([10.0, 3.0, None], [4.0, 0.0, 1.0]) == [6.0, 3.0, None]

    @pytest.mark.parametrize(
        ("figure", "text"),
        [(123456.7, "123,457"), (99.94, "99.9"), (9.994, "9.99"), (0.33333, "0.333"), (0, "0.000")],
    )
    def test_figures_show_about_three_digits(self, figure: float, text: str) -> None:
        assert figure_text(figure) == text


async def _log_and_return(log: list[str], name: str, settings: Settings) -> Values:
    log.append(f"{name} quick" if settings.quick else name)
    return {"time": float(len(log))}


async def _fail(settings: Settings) -> Values:
    raise OSError("no such luck\nand more")


def _measure(*subjects: Subject, goals: tuple[Goal, ...] = ()) -> Measure:
    return Measure(
        name="example",
        about="an example",
        subjects=subjects,
        metrics=(Metric("time", "ms"), Metric("other", "s")),
        goals=goals,
        baseline="B",
    )


def _run(measure: Measure, repeats: int) -> Outcome:
    return asyncio.run(runner.run(measure, Settings(), repeats, lambda _: None))


class TestRunner:
    def test_subjects_take_turns_after_a_quick_round(self) -> None:
        log: list[str] = []
        outcome = _run(
            _measure(*(Subject(name, partial(_log_and_return, log, name)) for name in "AB")), 2
        )
        assert log == ["A quick", "B quick", "A", "B", "A", "B"]
        assert outcome.samples == {
            "A": ({"time": 3.0}, {"time": 5.0}),
            "B": ({"time": 4.0}, {"time": 6.0}),
        }

    def test_a_failure_is_a_sample_and_stops_nobody(self) -> None:
        log: list[str] = []
        outcome = _run(
            _measure(Subject("A", _fail), Subject("B", partial(_log_and_return, log, "B"))), 1
        )
        assert outcome.samples["A"] == (Failure("OSError: no such luck"),)
        assert outcome.samples["B"] == ({"time": 2.0},)

    def test_a_sample_that_hangs_is_a_failure(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def hang(settings: Settings) -> Values:
            await asyncio.get_running_loop().create_future()
            return {}

        monkeypatch.setattr(runner, "PATIENCE_SECONDS", 0.001)
        assert _run(_measure(Subject("A", hang)), 1).samples["A"] == (Failure("TimeoutError"),)


class TestRows:
    SUBJECTS = (Subject("A", _fail), Subject("B", _fail))

    def _rows(self, a: tuple[Any, ...], b: tuple[Any, ...], *goals: Goal) -> list[Row]:
        return rows_of(Outcome(_measure(*self.SUBJECTS, goals=goals), {"A": a, "B": b}))

    def test_a_row_has_the_median_and_its_ratio_to_the_baseline(self) -> None:
        row, base = self._rows(
            ({"time": 1.0}, {"time": 4.0}, {"time": 3.0}),
            ({"time": 2.0}, {"time": 4.0}, {"time": 2.0}),
        )
        assert row.figures == (1.0, 4.0, 3.0)
        assert row.summary == Summary(3.0, 1.0, 4.0)
        assert row.ratio == Summary(1.0, 0.5, 1.5)
        assert base.ratio == Summary(1.0, 1.0, 1.0)

    def test_who_never_gave_a_figure_has_one_row_with_the_error(self) -> None:
        failed, _ = self._rows((Failure("Never: it does not"),) * 2, ({"time": 1.0},) * 2)
        assert (failed.summary, failed.error, failed.failures) == (None, "Never: it does not", 2)

    def test_who_failed_at_times_has_figures_and_the_error(self) -> None:
        row, _ = self._rows(({"time": 1.0}, Failure("OSError")), ({"time": 2.0}, {"time": 2.0}))
        assert row.summary == Summary(1.0, 1.0, 1.0)
        assert row.ratio == Summary(0.5, 0.5, 0.5)
        assert (row.error, row.failures) == ("OSError", 1)

    @pytest.mark.parametrize(
        ("goal", "verdict"),
        [
            (Goal("A", "time", "<=", 5), Verdict("<= 5 ms", 4.0, True)),
            (Goal("A", "time", ">=", 5), Verdict(">= 5 ms", 4.0, False)),
            (Goal("A", "time", ">=", 2, ("B", "time")), Verdict(">= 2x B", 2.0, True)),
            (Goal("A", "time", "<=", 9, ("A", "other")), Verdict("<= 9x its other", 8.0, True)),
            (
                Goal("A", "time", "<=", 1, above=("B", "time")),
                Verdict("<= 1 ms above B", 2.0, False),
            ),
            (Goal("A", "time", "<=", 5000), Verdict("<= 5,000 ms", 4.0, True)),
        ],
    )
    def test_goals_are_judged_by_the_median(self, goal: Goal, verdict: Verdict) -> None:
        rows = self._rows(({"time": 4.0, "other": 0.5},), ({"time": 2.0},), goal)
        assert rows[0].verdicts == (verdict,)

    def test_what_was_not_measured_misses_its_goal(self) -> None:
        rows = self._rows((Failure("OSError"),), ({"time": 1.0},), Goal("A", "time", "<=", 5))
        assert rows[0].verdicts == (Verdict("<= 5 ms", None, False),)


class TestMeasures:
    @pytest.mark.parametrize("measure", MEASURES.values(), ids=list(MEASURES))
    def test_goals_and_baselines_name_what_is_there(self, measure: Measure) -> None:
        subjects = {subject.name for subject in measure.subjects}
        metrics = {metric.name for metric in measure.metrics}
        assert measure.baseline in subjects
        for goal in measure.goals:
            own = (goal.subject, goal.metric)
            for subject, metric in filter(None, (own, goal.of, goal.above)):
                assert subject in subjects, goal
                assert metric in metrics, goal
            assert goal_text(goal, measure)

    def test_the_mixed_load_is_always_the_same(self) -> None:
        load = load_of(Settings())
        assert load == load_of(Settings())
        assert len(load.short) == 10_000
        assert min(load.short) >= 0.0001
        assert max(load.short) <= 0.01

    @pytest.mark.parametrize("workers", [1, 2, 5])
    def test_shares_of_the_mixed_load_are_all_of_it_and_even(self, workers: int) -> None:
        load = load_of(Settings())
        shares = load.shares(workers)
        assert sorted(chain(*shares)) == sorted([*load.short, load.long])
        assert max(map(sum, shares)) == pytest.approx(load.ideal_seconds(workers), abs=0.01)

    @pytest.mark.parametrize(
        ("begun", "expected"),
        [([1.0, 2.0, 3.0], 0.0), ([1.0, 5.0, 2.0, 3.0], 3.0), ([4.0, 3.0, 1.0], 3.0), ([], 0.0)],
    )
    def test_overtaken_is_how_long_others_were_served_first(
        self, begun: list[float], expected: float
    ) -> None:
        assert longest_overtaken(begun) == expected


def _benchmarks(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


class TestCommandLine:
    def test_a_quick_run_gives_all_figures_as_json(self) -> None:
        run = _benchmarks("throughput", "latency", "--quick", "--repeats", "1", "--json", "-")
        assert run.returncode == 0, run.stderr
        found = json.loads(run.stdout)
        assert (found["settings"]["workers"], found["settings"]["quick"]) == (2, True)
        assert found["machine"]["cpus"] >= 1
        assert [measure["name"] for measure in found["measures"]] == ["throughput", "latency"]
        for measure in found["measures"]:
            for row in measure["rows"]:
                assert row["error"] is None, row
                (figure,) = row["figures"]
                assert figure > 0
                assert row["summary"] == {"median": figure, "low": figure, "high": figure}
                assert row["ratio"]["median"] > 0
        subjects = [row["subject"] for row in found["measures"][0]["rows"]]
        assert {"asyncpool", "PPE", "mp.Pool"} <= set(subjects)
        assert "ratio: to PPE in the same round" in run.stderr

    def test_an_unknown_measure_is_bad_usage(self) -> None:
        run = _benchmarks("speed")
        assert run.returncode == 2
        assert "no such measure: speed" in run.stderr

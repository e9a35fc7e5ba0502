"""Takes the samples: all subjects in turn, round after round, A B A B. Knows no measure."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from dataclasses import replace

from .model import Failure, Measure, Outcome, Sample, Settings, Subject

PATIENCE_SECONDS = 90.0
"""A sample that takes longer is a failure."""

Tell = Callable[[str], None]


async def run(measure: Measure, settings: Settings, repeats: int, tell: Tell) -> Outcome:
    """Take `repeats` samples of each subject, after a round of small ones to warm up."""
    await _round(measure, replace(settings, quick=True), f"{measure.name}: warm-up", tell)
    rounds = [
        await _round(measure, settings, f"{measure.name}: {number} of {repeats}", tell)
        for number in range(1, repeats + 1)
    ]
    names = [subject.name for subject in measure.subjects]
    return Outcome(measure, dict(zip(names, zip(*rounds, strict=True), strict=True)))


async def _round(measure: Measure, settings: Settings, title: str, tell: Tell) -> list[Sample]:
    samples = []
    for subject in measure.subjects:
        tell(f"{title}, {subject.name}")
        samples.append(await _sample(subject, settings))
    return samples


async def _sample(subject: Subject, settings: Settings) -> Sample:
    gc.collect()  # nobody pays for what another subject left behind
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await subject.sample(settings)
    except Exception as error:
        return Failure(_described(error))


def _described(error: Exception) -> str:
    """Return an error in one line."""
    said = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__

"""The stateful model again, with a journal whose disk fails, and a parent that dies at any time.

Nothing that was accepted is lost, nothing that is recorded to have ended runs again, nothing is
told twice or before it is recorded, and crashes are charged to whoever ran.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from .journaled import JournaledWorld
from .test_model import DispatcherModel
from .world import Function


class JournaledModel(DispatcherModel):
    world: JournaledWorld

    @initialize(
        workers=st.integers(1, 3),
        spares=st.integers(0, 2),
        max_tasks=st.one_of(st.none(), st.integers(1, 3)),
    )
    def open(self, workers: int, spares: int, max_tasks: int | None) -> None:
        self.world = JournaledWorld(workers=workers, spares=spares, max_tasks=max_tasks)  # type: ignore[arg-type]
        self.functions = [Function(), Function(1e-6), Function(0.01)]

    @rule()
    def turn(self) -> None:
        self.world.turn()

    @rule(
        turns=st.integers(0, 2),
        well=st.sampled_from([True, True, True, True, False]),
        fits=st.one_of(st.just(0), st.integers(0, 255)),
    )
    def answer(self, turns: int, well: bool, fits: int) -> None:
        for _ in range(turns):
            self.world.turn()
        self.world.answer(well=well, fits=fits)

    @rule()
    def settle(self) -> None:
        """Let all workers become ready, and all be written."""
        for process in self.world.living:
            if not process.ready:
                self.world.become_ready(process)
        self.world.write_all()

    @rule(rounds=st.integers(1, 3))
    def work(self, rounds: int) -> None:
        for _ in range(rounds):
            self.world.let_everybody_work()

    @precondition(lambda self: self.world.is_busy)
    @rule(written=st.booleans())
    def crash(self, written: bool) -> None:
        self.world.crash(written=written)

    @precondition(lambda self: self.world.is_busy)
    @rule()
    def leave(self) -> None:
        self.world.be_left()

    @precondition(lambda self: self.world.is_busy)
    @rule(pick=st.integers(0, 1000))
    def leave_because_of_an_interrupt(self, pick: int) -> None:
        """It has cancelled a job on its way."""
        open_jobs = list(self.world.dispatcher.unfinished.values())
        if open_jobs:
            self.world.cancel(open_jobs[pick % len(open_jobs)])
        self.world.be_left()

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        world.run_to_the_end()
        world.write_all()
        for number, endings in world.endings.items():
            assert len(endings) == 1, f"job {number} was resolved {len(endings)} times"
        index = world.paper.index
        assert world.accepted_ids <= index.finished.keys() | index.unfinished.keys()
        world.close()
        for _ in range(10):
            world.let_everybody_work()
            world.pass_time(1.0)
        assert world.dispatcher.is_over, f"left over: {world.dispatcher.workers}"


JournaledModel.TestCase.settings = settings(
    max_examples=int(os.environ.get("ASYNCPOOL_EXAMPLES", "60")),
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestJournaledModel = JournaledModel.TestCase

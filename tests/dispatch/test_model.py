"""A stateful model: random submissions, ACKs, results, deaths, cancellations and clock steps.

The invariants stand in `World.check`; here is what may happen, and that all ends well.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from asyncpool.dispatch.records import Death, Phase
from asyncpool.retry import Retry

from .world import Function, Process, World

retries = st.builds(
    Retry,
    max_crashes=st.one_of(st.none(), st.integers(1, 3)),
    max_errors=st.integers(0, 2),
    delay=st.sampled_from([0.0, 0.0, 0.3]),
)


class DispatcherModel(RuleBasedStateMachine):
    world: World

    @initialize(
        workers=st.integers(1, 3),
        spares=st.integers(0, 2),
        max_tasks=st.one_of(st.none(), st.integers(1, 3)),
    )
    def open(self, workers: int, spares: int, max_tasks: int | None) -> None:
        self.world = World(workers=workers, spares=spares, max_tasks=max_tasks)  # type: ignore[arg-type]
        self.functions = [Function(), Function(1e-6), Function(0.01)]

    def some(self, processes: list[Process], pick: int) -> Process:
        return processes[pick % len(processes)]

    @rule(
        function=st.integers(0, 2),
        priority=st.integers(-1, 1),
        retry=retries,
        timeout=st.one_of(st.none(), st.floats(0.001, 2)),
        deadline=st.one_of(st.none(), st.floats(0, 3)),
        delay=st.sampled_from([0.0, 0.0, 0.0, 0.7]),
    )
    def submit(
        self,
        function: int,
        priority: int,
        retry: Retry,
        timeout: float | None,
        deadline: float | None,
        delay: float,
    ) -> None:
        self.world.submit(
            self.functions[function],
            priority=priority,
            retry=retry,
            timeout=timeout,
            deadline=deadline,
            delay=delay,
        )

    @rule(count=st.integers(2, 40))
    def submit_many_short_ones(self, count: int) -> None:
        for _ in range(count):
            self.world.submit(self.functions[1])

    @rule(pick=st.integers(0, 100))
    def start_well(self, pick: int) -> None:
        waiting = [p for p in self.world.living if not p.ready]
        if waiting:
            self.world.become_ready(self.some(waiting, pick))

    @rule(pick=st.integers(0, 100), spawned=st.booleans())
    def fail_to_start(self, pick: int, spawned: bool) -> None:
        waiting = [p for p in self.world.living if not p.ready]
        if waiting:
            process = self.some(waiting, pick)
            if spawned:
                self.world.dispatcher.worker_spawned(process.serial, 1)
            process.alive = False
            self.world.tell_death(process)

    @rule(pick=st.integers(0, 100))
    def begin(self, pick: int) -> None:
        able = [p for p in self.world.living if p.tickets and p.running is None]
        if able:
            self.world.begin(self.some(able, pick))

    @rule(pick=st.integers(0, 100), well=st.booleans())
    def end(self, pick: int, well: bool) -> None:
        able = [p for p in self.world.living if p.running is not None]
        if able:
            self.world.end(self.some(able, pick), well=well)

    @rule(pick=st.integers(0, 100), jobs=st.integers(1, 30))
    def work_off(self, pick: int, jobs: int) -> None:
        able = [p for p in self.world.living if p.ready]
        if able:
            process = self.some(able, pick)
            for _ in range(jobs):
                self.world.end(process)
                self.world.begin(process)

    @rule(pick=st.integers(0, 100), count=st.integers(1, 5))
    def deliver(self, pick: int, count: int) -> None:
        able = [p for p in self.world.processes.values() if p.transit]
        if able:
            self.world.deliver(self.some(able, pick), count)

    @rule(pick=st.integers(0, 100))
    def die(self, pick: int) -> None:
        able = [p for p in self.world.living if p.ready]
        if able:
            self.some(able, pick).alive = False

    @rule(pick=st.integers(0, 100))
    def tell_death(self, pick: int) -> None:
        for process in self.world.living:
            self.world.leave(process)
        dead = [p for p in self.world.processes.values() if not p.alive and not p.told_dead]
        if dead:
            self.world.tell_death(self.some(dead, pick))

    @rule(pick=st.integers(0, 1000))
    def cancel(self, pick: int) -> None:
        open_jobs = list(self.world.dispatcher.unfinished.values())
        if open_jobs:
            self.world.cancel(open_jobs[pick % len(open_jobs)])

    @rule(pick=st.integers(0, 100))
    def misbehave(self, pick: int) -> None:
        serving = [w for w in self.world.dispatcher.workers.values() if w.phase is Phase.READY]
        if serving:
            self.world.dispatcher.broken(serving[pick % len(serving)].serial)
            self.world.dispatcher.batch_over(self.world.now)
            self.world.perform()

    @rule(seconds=st.sampled_from([0.0, 0.001, 0.006, 0.1, 1.1, 9.0]))
    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @precondition(lambda self: hasattr(self, "world"))
    @invariant()
    def holds(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        world.run_to_the_end()
        for number, endings in world.endings.items():
            assert len(endings) == 1, f"job {number} was resolved {len(endings)} times"
            reruns = world.executions[number] - 1
            job = world.jobs[number]
            assert reruns <= len(job.attempts), "it ran more often than it was acknowledged"
        world.close()
        for _ in range(10):
            world.let_everybody_work()
            world.pass_time(1.0)
        assert world.dispatcher.is_over, f"left over: {world.dispatcher.workers}"
        assert not world.dispatcher.take()
        world.dispatcher.worker_lost(1, Death(), world.now)  # long gone: ignored
        assert not world.dispatcher.take()


DispatcherModel.TestCase.settings = settings(
    max_examples=int(os.environ.get("ASYNCPOOL_EXAMPLES", "60")),
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestModel = DispatcherModel.TestCase

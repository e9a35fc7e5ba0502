"""Short jobs are sent ahead to a busy worker, and come back if it turns out to be busy for long."""

from __future__ import annotations

from asyncpool.dispatch import decisions as d
from asyncpool.jobs import JobState

from .world import Function, World


def test_what_was_sent_ahead_is_told_to_be_back_in_its_old_order() -> None:
    world = World(workers=1)
    (process,) = world.processes.values()
    short = Function(1e-6)
    first, second, third = (world.submit(short) for _ in range(3))
    world.become_ready(process)
    assert list(process.tickets) == [first, second, third]
    world.begin(process)
    world.deliver(process)
    world.pass_time(0.006)
    recalled = [decision for decision in world.decided if isinstance(decision, d.Recalled)]
    assert [decision.job for decision in recalled] == [third, second]  # the newest come first
    assert {decision.worker.pid for decision in recalled} == {first.attempts[0].pid}
    assert (second.state, third.state) == (JobState.PENDING, JobState.PENDING)
    assert not [decision for decision in world.decided if isinstance(decision, d.Resent)]
    world.end(process)
    world.deliver(process)
    assert process.tickets[0] is second
    world.run_to_the_end()
    assert world.executions == {1: 1, 2: 1, 3: 1}


def test_what_is_to_run_alone_has_its_worker_for_itself() -> None:
    world = World(workers=1)
    (process,) = world.processes.values()
    world.become_ready(process)
    short = Function(1e-6)
    world.submit(short)
    jobs = [world.submit(short) for _ in range(5)]
    jobs[2].alone = True
    world.begin(process)
    world.end(process)
    world.deliver(process)
    assert list(process.tickets) == jobs[:2]
    for _ in range(2):
        world.begin(process)
        world.end(process)
    world.deliver(process)
    assert list(process.tickets) == [jobs[2]]
    world.begin(process)
    world.end(process)
    world.deliver(process)
    assert list(process.tickets) == jobs[3:]

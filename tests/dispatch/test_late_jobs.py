"""A job that is past its deadline is never sent, however the news of it arrive."""

from __future__ import annotations

from asyncpool.dispatch import decisions as d
from asyncpool.jobs import JobState

from .world import Process, World


def ready_world() -> tuple[World, Process]:
    world = World(workers=1)
    (process,) = world.processes.values()
    world.become_ready(process)
    return world, process


def test_a_worker_that_gets_free_is_not_given_a_late_job() -> None:
    world, process = ready_world()
    world.submit()
    late = world.submit(deadline=1.0)
    world.begin(process)
    world.end(process)
    world.now += 2.0  # nobody was there to notice the time
    world.deliver(process)
    assert world.endings[late.number] == [d.Overrun(None, None, None)]
    assert world.executions[late.number] == len(process.tickets) == 0


def test_a_job_without_any_time_is_not_sent() -> None:
    world, process = ready_world()
    late = world.submit(deadline=0.0)
    assert (late.state, len(process.tickets)) == (JobState.FAILED, 0)


def test_a_deadline_missed_under_a_dying_worker_is_not_forgotten() -> None:
    world, process = ready_world()
    job = world.submit(deadline=1.0)
    world.begin(process)
    world.deliver(process)
    world.dispatcher.broken(process.serial)
    world.dispatcher.batch_over(world.now)
    world.perform()
    world.pass_time(2.0)
    assert not job.state.ended  # its worker may still have finished it
    world.tell_death(process)
    assert world.endings[job.number] == [d.Overrun(None, None, None)]
    assert world.executions[job.number] == 1


def test_a_deadline_still_ahead_survives_a_crash() -> None:
    world, process = ready_world()
    job = world.submit(deadline=10.0)
    world.begin(process)
    world.deliver(process)
    process.alive = False
    world.tell_death(process)
    world.pass_time(11.0)
    assert world.endings[job.number] == [d.Overrun(None, None, None)]
    assert world.executions[job.number] == 1

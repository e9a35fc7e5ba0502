"""When starts of workers fail: how often they are tried, and when those who wait are told."""

from __future__ import annotations

from asyncpool.dispatch import decisions as d
from asyncpool.dispatch.records import Death
from asyncpool.dispatch.starts import FEWEST_TRIES, HANGING

from .world import Process, World


def fail(world: World, *processes: Process) -> None:
    for process in processes:
        process.alive, process.told_dead = False, True
        world.dispatcher.worker_spawned(process.serial, 1)
        world.dispatcher.worker_lost(process.serial, Death(exit_code=1), world.now)
        world.perform()


def coming(world: World) -> list[Process]:
    return [process for process in world.living if not process.ready]


def fail_until_given_up(world: World) -> int:
    """Let every start fail; return how many there were until somebody was told."""
    tries = 0
    while world.dispatcher.unfinished:
        tries += len(coming(world))
        fail(world, *coming(world))
        world.pass_time(2.0)
    return tries


def test_workers_that_fail_together_are_one_try() -> None:
    world = World(workers=8)
    job = world.submit()
    fail(world, *coming(world))
    assert not job.state.ended
    assert fail_until_given_up(world) == FEWEST_TRIES - 1


def test_nobody_is_told_while_a_worker_may_still_come() -> None:
    world = World(workers=2)
    job = world.submit()
    slow, broken = coming(world)
    world.dispatcher.worker_spawned(slow.serial, 1)
    world.dispatcher.worker_alive(slow.serial, world.now)
    fail(world, broken)
    world.pass_time(3 * HANGING)
    assert not job.state.ended
    world.become_ready(slow)
    world.run_to_the_end()
    assert isinstance(world.endings[job.number][0], d.Value)


def test_a_later_job_is_not_told_of_an_earlier_failure() -> None:
    world = World(workers=2)
    first = world.submit()
    old = coming(world)
    world.pass_time(HANGING + 0.1)  # both are condemned
    fail(world, old[0])
    assert isinstance(world.endings[first.number][0], d.NoWorkers)
    later = world.submit()
    fail(world, old[1])
    assert not later.state.ended
    world.become_ready(coming(world)[0])
    world.run_to_the_end()
    assert isinstance(world.endings[later.number][0], d.Value)


def test_a_later_job_is_not_told_of_a_start_that_hung_from_before() -> None:
    world = World(workers=2)
    first = world.submit()
    old = coming(world)
    world.pass_time(HANGING + 0.1)  # both are condemned, and their places taken
    fail(world, *old)
    assert isinstance(world.endings[first.number][0], d.NoWorkers)
    hanging = coming(world)
    assert hanging
    later = world.submit()
    world.pass_time(HANGING)
    for process in hanging:
        assert not process.alive
        fail(world, process)
    assert not later.state.ended
    world.run_to_the_end()
    assert isinstance(world.endings[later.number][0], d.Value)


def test_tries_are_bounded_and_a_later_job_tries_anew() -> None:
    world = World(workers=1)
    for _ in range(3):
        job = world.submit()
        assert fail_until_given_up(world) == FEWEST_TRIES
        assert isinstance(world.endings[job.number][0], d.NoWorkers)
    world.pass_time(60.0)
    assert coming(world) == []

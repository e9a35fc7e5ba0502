"""A job too big to be written at once: the time until its ACK counts from the last byte taken."""

from __future__ import annotations

from asyncpool.dispatch.flow import ACK_SECONDS
from asyncpool.dispatch.records import Phase

from .world import Process, World


def world_with_a_job() -> tuple[World, Process]:
    world = World(workers=1)
    (process,) = world.processes.values()
    world.become_ready(process)
    world.submit()
    return world, process


def phase_of(world: World, process: Process) -> Phase:
    return world.dispatcher.workers[process.serial].phase


def test_a_worker_that_reads_on_is_left_alone() -> None:
    world, process = world_with_a_job()
    for _ in range(5):
        world.pass_time(0.9 * ACK_SECONDS)
        world.feed(process)
    assert phase_of(world, process) is Phase.READY


def test_a_worker_that_stops_reading_is_replaced() -> None:
    world, process = world_with_a_job()
    world.pass_time(0.9 * ACK_SECONDS)
    world.feed(process)
    world.pass_time(1.1 * ACK_SECONDS)
    assert phase_of(world, process) is Phase.CONDEMNED

"""The queue: by priority, then in the order of submission, also for those that come back."""

from __future__ import annotations

import heapq

from hypothesis import given
from hypothesis import strategies as st

from asyncpool.dispatch.queue import Agenda, ReadyQueue
from asyncpool.dispatch.records import NEVER, JobRecord
from asyncpool.retry import Retry


def job(number: int, priority: int = 0) -> JobRecord:
    return JobRecord(number, None, priority=priority, retry=Retry())


priorities = st.one_of(st.just(0), st.integers(-5, 5), st.integers(-(2**80), 2**80))


@given(st.lists(priorities, max_size=30), st.randoms())
def test_pops_by_priority_then_by_number(given_: list[int], random: object) -> None:
    queue = ReadyQueue()
    jobs = [job(number, priority) for number, priority in enumerate(given_)]
    for each in sorted(jobs, key=lambda _: random.random()):  # type: ignore[attr-defined]
        queue.push(each)
    popped = [queue.pop() for _ in jobs]
    assert popped == sorted(jobs, key=lambda each: (-each.priority, each.number))
    assert queue.pop() is None
    assert queue.peek() is None


@given(st.lists(st.tuples(st.sampled_from(["push", "pop", "drop"]), st.integers(0, 50))))
def test_discarded_jobs_never_surface(steps: list[tuple[str, int]]) -> None:
    queue, model = ReadyQueue(), dict[int, JobRecord]()
    for step, number in steps:
        if step == "push" and number not in model:
            model[number] = job(number)
            queue.push(model[number])
        elif step == "pop":
            expected = model.pop(min(model)) if model else None
            assert queue.pop() is expected
        elif step == "drop":
            known = model.pop(number, None)
            assert queue.discard(known or job(number)) is (known is not None)
        assert len(queue) == len(model)


def test_cancelled_jobs_do_not_pile_up() -> None:
    queue = ReadyQueue()
    for number in range(10_000):
        each = job(number)
        queue.push(each)
        queue.discard(each)
    assert len(queue._heap) < 200


@given(st.lists(st.floats(0, 100), max_size=30), st.floats(0, 100))
def test_the_agenda_gives_what_is_due_in_order(moments: list[float], now: float) -> None:
    agenda = Agenda()
    for number, moment in enumerate(moments):
        agenda.add(moment, job(number))
    due = [(moments[each.number], each.number) for each in agenda.due(now)]
    everything = [(moment, number) for number, moment in enumerate(moments)]
    assert due == heapq.nsmallest(len(due), everything)
    later = [moment for moment, _ in everything if moment > now]
    assert agenda.next_moment == min(later, default=NEVER)


def test_the_agenda_forgets_what_was_discarded() -> None:
    agenda = Agenda()
    for number in range(10_000):
        each = job(number)
        agenda.add(1e9, each)
        assert each in agenda
        assert agenda.discard(each)
        assert not agenda.discard(each)
    assert agenda.next_moment == NEVER
    assert len(agenda._heap) < 200

"""What a journal stands on, simulated: its file, its disk, the loop, and processes to write to."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from asyncpool.crew import Crew
from asyncpool.dispatch import decisions as d
from asyncpool.dispatch.records import NEVER, WorkerRecord
from asyncpool.journal.crew import DurableCrew
from asyncpool.journal.index import Index
from asyncpool.journal.ledger import Note
from asyncpool.journal.lines import Record
from asyncpool.journal.scribe import Told

if TYPE_CHECKING:
    from .journaled import JournaledWorld


class Paper:
    """A ledger whose file is a list."""

    is_poisoned = False

    def __init__(self, written: Sequence[Record] = ()) -> None:
        self.records: list[Record] = []
        self.index = Index()
        for record in written:
            self._append(record)

    def write(self, notes: Sequence[Note]) -> None:
        for note in notes:
            self._append(json.loads(f"{{{note[2]}}}"))

    def _append(self, record: Record) -> None:
        self.index.note(record, (len(self.records), 1))
        self.records.append(record)

    def read(self, where: tuple[int, int]) -> Record:
        return self.records[where[0]]


class Disk:
    """A scribe that holds what it is to write until the world lets it answer."""

    def __init__(self) -> None:
        self.order: tuple[Sequence[Note], Told] | None = None

    def write(
        self,
        ledger: Paper,
        notes: Sequence[Note],
        told: Told,
        *,
        sync: bool,
    ) -> None:
        assert self.order is None, "the next batch came before this one was answered"
        self.order = notes, told


class Loop:
    """What a crew and a recorder want of a loop."""

    def __init__(self, world: JournaledWorld) -> None:
        self.time = lambda: world.now
        self.soon: deque[Callable[[], None]] = deque()

    def call_soon(self, callback: Callable[..., None], *args: object) -> None:
        self.soon.append(lambda: callback(*args))

    def call_later(self, delay: float, callback: Callable[..., None]) -> None:
        self.call_soon(callback)  # sooner than that is as good

    def turn(self) -> None:
        for _ in range(len(self.soon)):
            self.soon.popleft()()


class Wires(Crew):
    """A crew whose processes are the world's."""

    def __init__(self, world: JournaledWorld) -> None:
        loop: Any = world.loop
        audience: Any = world
        self._world = world
        self._loop, self._audience = loop, audience
        self._dispatcher, self._desk = world.dispatcher, world.dispatcher.desk
        self._wall_offset = 0.0
        self._acting = False
        self._alarm_at = NEVER
        all_gone: Any = Future()
        self.all_gone = all_gone
        self._perform = {
            d.Spawn: world._perform,
            d.Send: self._send,
            d.Recall: self._recall,
            d.Kill: world._perform,
            d.Stop: self._stop,
            **dict.fromkeys((d.Started, d.Returned, d.Arrived), world.noted),
        }

    def _set_alarm(self) -> None:
        """The world wakes the dispatcher by itself."""

    def _send(self, decision: d.Send) -> None:
        self._world.put_on_the_wire(decision)

    def _take_back(self, worker: WorkerRecord) -> int:
        process = self._world.processes[worker.serial]
        tickets, process.tickets = len(process.tickets), deque()
        return tickets

    def _stop(self, decision: d.Stop) -> None:
        assert decision.worker.serial not in self._world.crew._held
        self._world._perform(decision)

    def check_all_gone(self) -> None:
        """The world looks for itself."""

    def abandon(self) -> None:
        self._dispatcher.abandon(self._loop.time())
        self.act()


class SimulatedCrew(DurableCrew, Wires):
    """A crew that waits for its records, and then writes to simulated processes."""

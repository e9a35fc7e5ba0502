"""A record whose checksum is right, though no pool wrote it: an error with its place, no bug."""

from __future__ import annotations

from pathlib import Path

import pytest

from asyncpool.errors import JournalCorrupt
from asyncpool.journal import records
from asyncpool.journal.ledger import Ledger
from asyncpool.journal.lines import seal
from asyncpool.journal.options import Journal

STRANGE = {
    "no id": '"kind":"submitted","time":1.0',
    "no time": '"kind":"finished","id":"a"',
    "an id that is a list": '"kind":"submitted","id":["a"],"time":1.0',
    "ids that are a number": '"kind":"sent","ids":7,"worker":1,"pid":2,"time":1.0',
    "no crashes": '"kind":"retried","id":"a","time":1.0',
}


@pytest.mark.parametrize("body", STRANGE.values(), ids=STRANGE.keys())
def test_a_sealed_record_that_no_pool_writes_is_damage(tmp_path: Path, body: str) -> None:
    path = tmp_path / "jobs.log"
    good = seal(0, records.title(0, 1.0)) + seal(1, records.opened(7, 1.0))
    path.write_bytes(good + seal(2, body))
    path.chmod(0o600)
    with pytest.raises(
        JournalCorrupt, match="record 2 is whole, but not as it is written"
    ) as caught:
        Ledger.open(Journal(path))
    assert (caught.value.path, caught.value.offset) == (str(path), len(good))
    assert path.read_bytes() == good + seal(2, body)


def test_a_record_of_a_kind_that_came_later_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "jobs.log"
    path.write_bytes(seal(0, records.title(0, 1.0)) + seal(1, '"kind":"weather","id":"a"'))
    path.chmod(0o600)
    ledger = Ledger.open(Journal(path))
    ledger.close()
    assert ledger.index.unfinished == {}

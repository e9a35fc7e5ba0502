"""The durable benchmarks: what they write, what they are measured beside, and that they run."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from asyncpool.journal.ledger import Ledger
from asyncpool.journal.options import Journal
from benchmarks import __main__, opening, peers, recorded, runner, stores
from benchmarks.huey_tasks import HueyQueue
from benchmarks.measures import GROUPS, MEASURES, accepted
from benchmarks.model import Failure, Measure, Metric, Settings
from benchmarks.optional import NotInstalled, optional
from benchmarks.volume import Volume, best_directory, find_volume, volume_of
from benchmarks.workloads import noop
from tests.support.scripts import ROOT

MOUNTS = """\
/dev/vda / ext4 rw,relatime 0 0
proc /proc proc rw 0 0
tmpfs /tmp tmpfs rw 0 0
/dev/vdb /tmp/my\\040disk xfs rw 0 0
/dev/vdc /data ext4 rw 0 0
tmpfs /data tmpfs rw 0 0
"""


class TestVolume:
    @pytest.mark.parametrize(
        ("path", "expected"),
        [
            ("/", Volume("ext4", "/dev/vda")),
            ("/home/me", Volume("ext4", "/dev/vda")),
            ("/tmpfiles", Volume("ext4", "/dev/vda")),
            ("/tmp", Volume("tmpfs", "tmpfs")),
            ("/tmp/x", Volume("tmpfs", "tmpfs")),
            ("/tmp/my disk/x", Volume("xfs", "/dev/vdb")),
            ("/data/x", Volume("tmpfs", "tmpfs")),
        ],
    )
    def test_a_path_lies_on_the_innermost_and_last_mount(self, path: str, expected: Volume) -> None:
        assert find_volume(path, MOUNTS) == expected

    def test_without_a_mount_table_it_says_that_it_does_not_know(self) -> None:
        assert str(find_volume("/tmp", "")) == "unknown file system on unknown device"

    def test_memory_is_told_from_a_disk(self) -> None:
        assert Volume("tmpfs", "tmpfs").in_memory
        assert "in memory" in str(Volume("tmpfs", "tmpfs"))
        assert str(Volume("ext4", "/dev/vda")) == "ext4 on /dev/vda"

    def test_a_directory_in_memory_is_not_chosen_if_there_is_another(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        def volume(path: str) -> Volume:
            return Volume("ext4" if path == str(tmp_path) else "tmpfs", "some")

        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr("benchmarks.volume.volume_of", volume)
        assert best_directory() == str(tmp_path)

    @pytest.mark.skipif(not os.path.exists("/dev/shm"), reason="Linux has it")
    def test_shared_memory_is_no_disk(self) -> None:
        assert volume_of("/dev/shm").in_memory


class TestRecorded:
    @pytest.fixture
    def journal(self, tmp_path: Path) -> str:
        path = str(tmp_path / "jobs.log")
        recorded.write_journal(path, lines=5_000, unfinished=100)
        return path

    def test_a_journal_is_as_long_as_it_should_be(self, journal: str) -> None:
        with open(journal, "rb") as file:
            assert 4_998 <= len(file.readlines()) <= 5_000

    def test_both_ways_of_reading_find_the_same_jobs(self, journal: str) -> None:
        assert opening.parse_lines(journal) == 100
        assert opening.open_ledger(journal) == 100  # last, because it rewrites the file
        with closing(Ledger.open_as_it_is(Journal(journal))) as ledger:
            assert all(job.startswith("unfinished-") for job in ledger.index.unfinished)

    async def test_its_records_are_those_of_a_pool(self, tmp_path: Path) -> None:
        async with peers.open_durable_pool(str(tmp_path), 1) as pool:
            await (await pool.enqueue(noop))
        theirs = _records(tmp_path / "jobs.log")
        path = tmp_path / "written.log"
        with closing(Ledger.open(Journal(path))) as ledger:
            for notes in recorded.batches(1, together=1):
                ledger.write(notes, sync=False)
        ours = _records(path)
        assert ours.keys() == {"asyncpool journal", "opened", "submitted", "sent", "finished"}
        for kind, record in ours.items():
            assert record.keys() == theirs[kind].keys()
        for field in ("function", "call", "payload", "timeout"):
            assert ours["submitted"][field] == theirs["submitted"][field]
        assert ours["finished"]["payload"] == theirs["finished"]["payload"]

    @pytest.mark.parametrize(("jobs", "together", "sends"), [(10, 4, 3), (8, 4, 2), (1, 4, 1)])
    def test_jobs_are_sent_together(self, jobs: int, together: int, sends: int) -> None:
        begun, sent, ended = recorded.batches(jobs, together=together)
        assert (len(begun), len(sent), len(ended)) == (jobs, sends, jobs)
        assert [each for note in sent for each in note[3][0]] == [note[1] for note in begun]

    def test_the_peak_is_measured(self) -> None:
        assert opening.peak_megabytes() > 1


def _records(path: Path) -> dict[str, dict[str, Any]]:
    """Return the last record of each kind."""
    return {record["kind"]: record for record in map(json.loads, path.read_text().splitlines())}


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Which descriptors were synced."""
    seen: list[int] = []
    monkeypatch.setattr(stores, "_sync", seen.append)
    return seen


class TestStores:
    def test_the_raw_file_is_synced_after_each_put(self, tmp_path: Path, syncs: list[int]) -> None:
        with stores.open_raw(str(tmp_path)) as put:
            put()
            put()
        assert len(syncs) == 2
        assert (tmp_path / "raw").read_bytes() == recorded.typical_line() * 2

    def test_a_group_shares_a_sync(self, tmp_path: Path, syncs: list[int]) -> None:
        with stores.open_raw(str(tmp_path), group=10) as put:
            put()
        assert len(syncs) == 1
        assert (tmp_path / "raw").read_bytes() == recorded.typical_line() * 10

    def test_sqlite_has_what_was_put_as_soon_as_put_returns(self, tmp_path: Path) -> None:
        with stores.open_sqlite(str(tmp_path)) as put:
            put()
            with closing(sqlite3.connect(tmp_path / "sqlite")) as other:
                assert other.execute("select count(*), body from job").fetchone() == (
                    1,
                    recorded.typical_line(),
                )
                assert other.execute("pragma journal_mode").fetchone() == ("wal",)

    def test_huey_syncs_each_commit(self, tmp_path: Path) -> None:
        pytest.importorskip("huey")
        with closing(HueyQueue(str(tmp_path / "huey"))) as queue:
            storage = queue._huey.storage
            assert storage.conn.execute("pragma synchronous").fetchone() == (2,)
            assert storage.conn.execute("pragma journal_mode").fetchone() == ("wal",)
            queue.put()
            assert not queue.is_done(1)
            assert storage.queue_size() == 1

    def test_persist_queue_syncs_each_commit(self, tmp_path: Path) -> None:
        queue = pytest.importorskip("persistqueue").SQLiteQueue(str(tmp_path), auto_commit=True)
        with closing(queue):
            assert queue._putter.execute("pragma synchronous").fetchone() == (2,)
            assert queue._putter.execute("pragma journal_mode").fetchone() == ("wal",)

    @pytest.mark.parametrize("keep_results", [False, True])
    async def test_hueys_consumer_empties_the_queue_and_goes(
        self, tmp_path: Path, keep_results: bool
    ) -> None:
        pytest.importorskip("huey")
        with closing(HueyQueue(str(tmp_path / "huey"), keep_results=keep_results)) as queue:
            for _ in range(3):
                queue.put()
            with queue.consumer(1) as process:
                while not queue.is_done(3):
                    assert process.poll() is None
                    await asyncio.sleep(0.01)  # huey tells nobody
            assert process.returncode is not None


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huey", None)
    monkeypatch.setitem(sys.modules, "persistqueue", None)


@pytest.mark.usefixtures("nothing_installed")
class TestNotInstalled:
    def test_the_error_says_how_to_get_it(self) -> None:
        with pytest.raises(NotInstalled, match=r"pip install .*\[bench\]"):
            optional("huey")

    def test_who_is_not_installed_is_skipped_and_the_others_are_not(self, tmp_path: Path) -> None:
        subjects = [
            subject
            for subject in accepted.ONE.subjects
            if subject.name in ("huey", "persist-queue", accepted.SQLITE)
        ]
        measure = Measure(
            name="example",
            about="an example",
            subjects=tuple(subjects),
            metrics=(Metric("jobs/s", "jobs/s"),),
            baseline=accepted.SQLITE,
        )
        settings = Settings(quick=True, directory=str(tmp_path))
        found = asyncio.run(runner.run(measure, settings, 1, lambda _: None)).samples
        for name, module in (("huey", "huey"), ("persist-queue", "persistqueue")):
            (failure,) = found[name]
            assert isinstance(failure, Failure)
            assert f"no {module}: pip install" in failure.error
        (values,) = found[accepted.SQLITE]
        assert not isinstance(values, Failure)
        assert list(tmp_path.iterdir()) == []


class TestCommandLine:
    def test_a_group_is_all_of_its_measures(self) -> None:
        options = __main__._parse(["latency", "durable"])
        assert options.names == ["latency", *GROUPS["durable"]]
        assert set(GROUPS["durable"]) <= MEASURES.keys()

    def test_a_directory_that_does_not_exist_is_bad_usage(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with pytest.raises(SystemExit) as ended:
            __main__._parse(["--directory", str(tmp_path / "none")])
        assert ended.value.code == 2
        assert "there is no directory" in capsys.readouterr().err

    def test_a_quick_run_gives_all_figures_and_leaves_no_file(self, tmp_path: Path) -> None:
        run = _durable("--quick", "--repeats", "1", "--json", "-", "--directory", str(tmp_path))
        assert run.returncode == 0, run.stderr
        found = json.loads(run.stdout)
        assert found["settings"]["directory"] == str(tmp_path)
        assert f"files in {tmp_path}: {found['machine']['volume']}" in run.stderr
        assert [measure["name"] for measure in found["measures"]] == [*GROUPS["durable"]]
        for measure in found["measures"]:
            for row in measure["rows"]:
                if row["error"] is None:
                    assert row["figures"][0] is not None, row
                else:  # of the peers, some may not be there
                    assert row["error"].startswith("NotInstalled"), row
        assert list(tmp_path.iterdir()) == []


def _durable(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", "durable", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )

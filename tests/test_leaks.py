"""A test that leaves something behind, or upsets an event loop, fails and is told why."""

from __future__ import annotations

import pytest

from tests.support.inner import run_pytest

# Each of these is a test module that misbehaves, and what its report must tell.
LEAKS = {
    "child": (
        """
        import subprocess
        kept = []
        def test_it() -> None:
            kept.append(subprocess.Popen(["sleep", "321"]))
        """,
        ["left behind: process", "sleep 321"],
    ),
    "orphan": (
        """
        import subprocess
        def test_it() -> None:
            orphan = "setsid sleep 322 >/dev/null 2>&1 &"
            # While it execs, a process has no environment to be known by.
            until_it_sleeps = 'until [ "$(cat /proc/$!/comm)" = sleep ]; do :; done'
            subprocess.run(f"{orphan} {until_it_sleeps}", shell=True, check=True)
        """,
        ["left behind: process", "sleep 322"],
    ),
    "zombie": (
        """
        import os
        def test_it() -> None:
            os.posix_spawn("/bin/sh", ["sh", "-c", ":"], {})
        """,
        ["left behind: zombie"],
    ),
    "descriptor": (
        """
        import os
        def test_it() -> None:
            os.open("/dev/zero", os.O_RDONLY)
        """,
        ["left behind: descriptor", "/dev/zero"],
    ),
    "descriptor_closed": (
        """
        import os, pytest
        @pytest.fixture(scope="session", autouse=True)
        def fd() -> int:
            return os.open("/dev/zero", os.O_RDONLY)
        def test_it(fd: int) -> None:
            os.close(fd)
        """,
        ["/dev/zero was closed, but is older than the test"],
    ),
    "thread": (
        """
        import threading
        def test_it() -> None:
            threading.Thread(target=threading.Event().wait, name="forgotten", daemon=True).start()
        """,
        ["left behind: thread", "forgotten"],
    ),
    "task": (
        """
        import asyncio
        kept = []
        async def test_it() -> None:
            kept.append(asyncio.create_task(asyncio.sleep(60), name="forgotten"))
        """,
        ["left behind: task", "forgotten"],
    ),
    "callback_raises": (
        """
        import asyncio
        async def test_it() -> None:
            asyncio.get_running_loop().call_soon(lambda: 1 / 0)
            await asyncio.sleep(0)
        """,
        ["an event loop complained", "ZeroDivisionError"],
    ),
    "own_loop_complains": (
        """
        import asyncio
        async def main() -> None:
            asyncio.get_running_loop().call_exception_handler({"message": "something broke"})
        def test_it() -> None:
            asyncio.run(main())
        """,
        ["an event loop complained", "something broke"],
    ),
    "never_retrieved": (
        """
        import asyncio
        async def fail() -> None:
            raise LookupError("nobody asks")
        async def test_it() -> None:
            await asyncio.wait({asyncio.create_task(fail())})
        """,
        ["an event loop complained", "never retrieved", "nobody asks"],
    ),
    "never_awaited": (
        """
        import asyncio
        async def test_it() -> None:
            asyncio.sleep(0)
        """,
        ["never awaited"],
    ),
    "destructor_raises": (
        """
        class Careless:
            def __del__(self) -> None:
                raise LookupError("too late")
        def test_it() -> None:
            Careless()
        """,
        ["too late"],
    ),
}

TIDY = """
    import asyncio, sys
    async def test_it() -> None:
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
        await process.wait()
        asyncio.create_task(asyncio.sleep(60)).cancel()
        await asyncio.to_thread(print)
    """


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What pytest reports of each of these modules, and of a tidy one, when they run together."""
    modules = {"tidy": TIDY} | {name: text for name, (text, _) in LEAKS.items()}
    run = run_pytest(modules, tmp_path_factory.mktemp("leaks"))
    assert "passed" in run.finished.stdout, run.finished
    return run.reports


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_fails_the_test(leak: str, reports: dict[str, str]) -> None:
    for text in LEAKS[leak][1]:
        assert text in reports[leak]


def test_a_tidy_test_passes(reports: dict[str, str]) -> None:
    assert reports["tidy"] == ""

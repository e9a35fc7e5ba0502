"""MAIN-1, MAIN-3: functions of the main module, however the program was started.

Each program prints `top` as it is run, so that a worker that ran it again would be seen, and
none has an `if __name__` guard.
"""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
import zipapp
from pathlib import Path

import pytest

from . import programs

PROGRAM = """\
import asyncio, asyncpool
print("top")
def sq(x): return x * x

async def main():
    async with asyncpool.Pool(2) as pool:
        print(await pool.submit(sq, 4), await pool.submit(abs, -1), pool.stats().crashes)

asyncio.run(main())
"""
EXPECTED = "top\n16 1 0\n"


@pytest.mark.parametrize("name", ["f.py", "my-job.py", "2 words.py", "launcher"])
def test_a_file_of_any_name(tmp_path: Path, name: str) -> None:
    """MAIN-1, MAIN-3: also one whose name cannot be imported, or has no suffix."""
    (tmp_path / name).write_text(PROGRAM)
    assert programs.run(name, cwd=tmp_path).out == EXPECTED


def test_a_file_run_from_elsewhere(tmp_path: Path) -> None:
    """MAIN-1."""
    (tmp_path / "f.py").write_text(PROGRAM)
    assert programs.run(str(tmp_path / "f.py"), cwd="/").out == EXPECTED


def test_an_executable_without_suffix(tmp_path: Path) -> None:
    """MAIN-3."""
    script = tmp_path / "tool"
    script.write_text(f"#!{sys.executable}\n{PROGRAM}")
    script.chmod(0o755)
    launcher = "import subprocess; subprocess.run(['./tool'], check=True)"
    assert programs.run("-c", launcher, cwd=tmp_path).out == EXPECTED


def test_a_module_of_a_package(tmp_path: Path) -> None:
    """MAIN-1."""
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").touch()
    (tmp_path / "pkg" / "mod.py").write_text(PROGRAM)
    assert programs.run("-m", "pkg.mod", cwd=tmp_path).out == EXPECTED


def test_a_package_as_program(tmp_path: Path) -> None:
    """MAIN-1: `__main__.py` uses its siblings by relative imports."""
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "tools.py").write_text("def plus(x): return x + 1\n")
    program = PROGRAM.replace("def sq(x): return x * x", RELATIVE)
    (package / "__main__.py").write_text(program)
    assert programs.run("-m", "pkg", cwd=tmp_path).out == EXPECTED


RELATIVE = """\
from .tools import plus
def sq(x):
    from .tools import plus as again
    assert plus is again
    return plus(x) ** 2 - 9
"""


def test_a_command(tmp_path: Path) -> None:
    """MAIN-1."""
    assert programs.run("-c", PROGRAM, cwd=tmp_path).out == EXPECTED


@pytest.mark.parametrize("arguments", [("-",), ()])
def test_a_program_from_stdin(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """MAIN-1: `python -` and a bare `python` behind a pipe."""
    assert programs.run(*arguments, cwd=tmp_path, stdin=PROGRAM).out == EXPECTED


@pytest.mark.parametrize(
    "namespace", ["__main__.__dict__", "{'__name__': '__main__'}", "{'__name__': 'a cell'}", "{}"]
)
def test_exec_without_a_file(tmp_path: Path, namespace: str) -> None:
    """MAIN-1: what a notebook or an embedding program does; `__main__` has no `__file__`."""
    (tmp_path / "cell.txt").write_text(PROGRAM)
    program = f"""
import __main__
assert not hasattr(__main__, "__file__")
exec(compile(open("cell.txt").read(), "<cell 1>", "exec"), {namespace})
"""
    assert programs.run("-c", program, cwd=tmp_path).out == EXPECTED


def test_runpy_as_main(tmp_path: Path) -> None:
    """MAIN-1: profilers and debuggers start programs so."""
    (tmp_path / "my-job.py").write_text(PROGRAM)
    program = "import runpy; runpy.run_path('my-job.py', run_name='__main__')"
    assert programs.run("-c", program, cwd=tmp_path).out == EXPECTED


def test_an_interactive_session(tmp_path: Path) -> None:
    """MAIN-1: `python -i` on a terminal."""
    typed = PROGRAM.replace('print("top")\n', "").replace("return x * x\n", "return x * x\n\n")
    shown = _type(typed + "exit()\n", tmp_path)
    assert "16 1 0\r\n" in shown
    for complaint in programs.COMPLAINTS:
        assert complaint not in shown


def test_a_session_with_await(tmp_path: Path) -> None:
    """MAIN-1: `python -m asyncio`, where the loop lives in a thread of its own."""
    typed = """\
import asyncpool
def sq(x): return x * x

pool = asyncpool.Pool(2)
await pool.__aenter__()
await pool.submit(sq, 4)
await pool.close()
"""
    assert "16\n" in programs.run("-m", "asyncio", cwd=tmp_path, stdin=typed).out


def _type(text: str, cwd: Path) -> str:
    """Type the lines into `python -i` on a terminal; return what the terminal shows."""
    ours, theirs = pty.openpty()
    shown = b""
    with subprocess.Popen(
        [sys.executable, "-i", "-q"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=cwd,
        # What the terminal shows of the line editor of Python 3.13 and later is no plain text.
        env={**programs.environment(), "PYTHON_BASIC_REPL": "1"},
        start_new_session=True,
    ):
        os.close(theirs)
        try:
            for line in text.splitlines(keepends=True):
                shown += _read_until_prompt(ours)
                os.write(ours, line.encode())
            shown += _read_until_prompt(ours)
        finally:
            os.close(ours)
    return shown.decode()


def _read_until_prompt(terminal: int) -> bytes:
    shown = b""
    end = time.monotonic() + 20
    while not shown.endswith((b">>> ", b"... ")):
        assert select.select([terminal], [], [], max(0, end - time.monotonic()))[0], shown
        try:
            data = os.read(terminal, 4096)
        except OSError:  # the session is over
            return shown
        if not data:
            return shown
        shown += data
    return shown


def test_an_ipython_session(tmp_path: Path) -> None:
    """MAIN-1."""
    cells = PROGRAM.replace("asyncio.run(main())", "await main()")
    (tmp_path / "cells.ipy").write_text(cells)
    home = {"IPYTHONDIR": str(tmp_path / "ipython")}
    assert programs.run("-m", "IPython", "cells.ipy", cwd=tmp_path, env=home).out == EXPECTED


def test_a_zip_application(tmp_path: Path) -> None:
    """MAIN-3: job functions in the archive, in its main module and in another."""
    source = tmp_path / "app"
    source.mkdir()
    (source / "inner.py").write_text("def plus(x): return x + 1\n")
    program = PROGRAM.replace("abs, -1", "inner.plus, 0").replace("asyncio,", "inner, asyncio,", 1)
    (source / "__main__.py").write_text(program)
    zipapp.create_archive(source, tmp_path / "app.pyz")
    shutil.rmtree(source)
    assert programs.run("app.pyz", cwd=tmp_path).out == EXPECTED


def test_import_main_in_a_job(tmp_path: Path) -> None:
    """MAIN-3: there is a `__main__` in workers, and it is not the program."""
    program = """\
import asyncio, asyncpool
def name():
    import __main__
    return __main__.__name__, hasattr(__main__, "name")
async def main():
    async with asyncpool.Pool(1) as pool:
        print(await pool.submit(name))
asyncio.run(main())
"""
    (tmp_path / "launcher").write_text(program)
    assert programs.run("launcher", cwd=tmp_path).out == "('__main__', False)\n"


def test_main_module_that_cannot_be_sent(tmp_path: Path) -> None:
    """MAIN-1: one clear error in the parent, and no worker is lost over it."""
    program = """\
import asyncio, asyncpool, threading
lock = threading.Lock()
def locked(x):
    with lock:
        return x
async def main():
    async with asyncpool.Pool(2) as pool:
        try:
            pool.submit(locked, 1)
        except asyncpool.SerializationError as error:
            print(error)
        await pool.submit(abs, -1)
        stats = pool.stats()
        print(stats.done, stats.failed, stats.crashes)
asyncio.run(main())
"""
    finished = programs.run("-c", program, cwd=tmp_path)
    error, counts = finished.out.splitlines()
    assert "locked cannot be sent to a worker" in error
    assert "'_thread.lock'" in error
    assert "inside the function, or move it into a module" in error
    assert counts == "1 0 0"
    assert finished.seconds < 5

"""SIGCHLD, where the loop allows it: a prompt hint to look at the children.

asyncio reaps its children itself; this only makes a pool look sooner, and notice deaths whose
status somebody else took. A handler of the application is left standing. uvloop owns the signal,
and threads other than the main one cannot have handlers: there a pidfd serves (Linux).
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from weakref import WeakKeyDictionary

_watches: WeakKeyDictionary[asyncio.AbstractEventLoop, SigchldWatch] = WeakKeyDictionary()


def watch(loop: asyncio.AbstractEventLoop, sweep: Callable[[], None]) -> SigchldWatch | None:
    """Have `sweep` called at each SIGCHLD until `unwatch`; None where that is impossible."""
    found = _watches.get(loop)
    if found is None:
        if not _may_install(loop):
            return None
        found = _watches[loop] = SigchldWatch(loop)
    found.sweeps.append(sweep)
    return found


def _may_install(loop: asyncio.AbstractEventLoop) -> bool:
    if not isinstance(loop, asyncio.SelectorEventLoop):
        return False  # uvloop would raise
    if threading.current_thread() is not threading.main_thread():
        return False
    return signal.getsignal(signal.SIGCHLD) in (signal.SIG_DFL, None)


class SigchldWatch:
    """One handler of one loop, shared by its pools."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.sweeps: list[Callable[[], None]] = []
        loop.add_signal_handler(signal.SIGCHLD, self._notice)
        self._installed = signal.getsignal(signal.SIGCHLD)

    def _notice(self) -> None:
        for sweep in list(self.sweeps):
            sweep()

    def unwatch(self, sweep: Callable[[], None]) -> None:
        """Stop calling `sweep`; the last one takes the handler away, if it is still ours."""
        if sweep not in self.sweeps:
            return
        self.sweeps.remove(sweep)
        if self.sweeps:
            return
        _watches.pop(self._loop, None)
        if self._is_ours() and not self._loop.is_closed():
            self._loop.remove_signal_handler(signal.SIGCHLD)

    def _is_ours(self) -> bool:
        """Whether the application has not replaced the handler since."""
        if signal.getsignal(signal.SIGCHLD) is not self._installed:
            return False
        # A later loop.add_signal_handler shows in the loop alone, where nothing public tells.
        handlers = getattr(self._loop, "_signal_handlers", {})
        handle = handlers.get(signal.SIGCHLD)
        return handle is None or getattr(handle, "_callback", None) == self._notice

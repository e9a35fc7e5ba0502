"""What has been decided and not yet carried out, and when to look again."""

from __future__ import annotations

from .decisions import Decision
from .records import NEVER


class Desk:
    """Where the dispatcher and its roster put their decisions, in one order."""

    __slots__ = ("decide", "decisions", "wake_at")

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.decide = self.decisions.append
        self.wake_at = NEVER

    def want(self, moment: float) -> None:
        """Ask to be woken at that moment or earlier."""
        self.wake_at = min(self.wake_at, moment)

    def clear(self) -> list[Decision]:
        """Hand over all decisions."""
        decisions, self.decisions = self.decisions, []
        self.decide = self.decisions.append
        return decisions

"""A plan: actions in order, and whether they may be made."""

from __future__ import annotations

from dataclasses import dataclass

from gpuforge.changes.action import Action
from gpuforge.errors import PlanRefused


@dataclass(frozen=True)
class Plan:
    """Changes to be made together.

    Attributes
    ----------
    title : what they are for
    actions : in the order in which they are made
    """

    title: str
    actions: tuple[Action, ...]

    @property
    def refusals(self) -> tuple[str, ...]:
        """Why the plan would not be safe; empty when it is."""
        return tuple(reason for action in self.actions if (reason := action.refusal()))

    def check(self) -> None:
        """Raise `PlanRefused` if the plan would not be safe, with the commands to run by hand."""
        if self.refusals:
            by_hand = "; ".join(action.command for action in self.actions)
            raise PlanRefused("; ".join(self.refusals), hint=f"by hand: {by_hand}")

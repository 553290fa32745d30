"""A plan: a sequence of actions, and whether they are safe."""

from __future__ import annotations

from dataclasses import dataclass

from gpuforge.changes.action import Action
from gpuforge.errors import PlanRefused


@dataclass(frozen=True)
class Plan:
    """Changes that are made together.

    Attributes
    ----------
    title : the purpose of the changes
    actions : the changes, in the order in which they are made
    """

    title: str
    actions: tuple[Action, ...]

    @property
    def refusals(self) -> tuple[str, ...]:
        """Why the plan would be unsafe; empty if it is safe."""
        return tuple(reason for action in self.actions if (reason := action.refusal()))

    def check(self) -> None:
        """Raise `PlanRefused` if the plan is unsafe; its hint lists the commands to run by hand."""
        if self.refusals:
            by_hand = "; ".join(action.command for action in self.actions)
            raise PlanRefused("; ".join(self.refusals), hint=f"by hand: {by_hand}")

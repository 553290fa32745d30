"""The data class of a suggestion."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Suggestion:
    """A possible change to a program, and an upper bound of its gain.

    Attributes
    ----------
    rule : name of the rule that found it
    title : what was found, in one line
    evidence : the measurements that support it, one text each
    bound_seconds : the most time that the change could save
    bound_share : the same as a share of the wall time, from 0 to 1
    advice : what to change
    check_command : the command that shows whether the change helped
    file, line : the place in the user's code; empty and 0 if unknown
    samples : number of measurements that support it
    """

    rule: str
    title: str
    evidence: list[str] = field(default_factory=list)
    bound_seconds: float = 0.0
    bound_share: float = 0.0
    advice: str = ""
    check_command: str = ""
    file: str = ""
    line: int = 0
    samples: int = 0

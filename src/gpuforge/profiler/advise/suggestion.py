"""One suggestion, with what it rests on."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Suggestion:
    """Something that could be changed, and the most that it could gain.

    Attributes
    ----------
    rule : name of the rule that found it
    title : what was seen, in one line
    evidence : the measurements it rests on, one text each
    bound_seconds : time that goes away at best; what remains is never less than the rest
    bound_share : the same as a share of the wall time, 0 to 1
    advice : what to change
    check_command : the command that shows whether the change helped
    file, line : the place in the user's code; empty and 0 where there is none
    samples : measurements that it rests on
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

"""Finding the causes of an error text: pure, and in time linear in the length of the text.

A clue of a known error is a text that must occur in the log, a regular expression for that line,
and conditions on the rest of the log and the machine. The clues of a cause are combined as
independent evidence. A consequence of another cause found, or a less precise one, yields to it.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from gpuforge.diagnose.known_error import Clue, KnownError, candidates, compiled
from gpuforge.diagnose.log import Log, Place, is_advice, is_setting
from gpuforge.diagnose.memory_figures import is_fragmented
from gpuforge.diagnose.surroundings import Surroundings
from gpuforge.facts import Machine

NAMED = 0.5
LISTED = 0.3
CERTAIN = 0.97
YIELDED = 0.5
EVIDENCE_LINES = 4
INFORMATION = 0.75
_HARMLESS = re.compile(r"\bcan (ignore th|((be )?safely |be )+ignored)|non-fatal")
# Of a low level, unless the message itself has the level of an error.
_INFORMATION = re.compile(
    r"(?!.*\b(error|fatal):)(.{0,60}?(?<![\w.])(info|debug)(?![\w.])|i\d{4} \d\d:)"
)
_WARNING = re.compile(
    r".{0,60}?(?<![\w.])warn(ing)?(?![\w.])|.{0,50}?\d: w |w\d{4} \d\d:|w tensorflow"
)
# At this level NCCL logs which of its optional components it did not find.
_DETAIL = re.compile(r".{0,80}?\bnccl info\b")
# Text before an error that is only mentioned in general: "when an ECC error is detected".
_SUPPOSED = re.compile(
    r"(\b(when(ever)?|if|in case|each time|every time|unless) an? (\w+ ){0,2}"
    r"|(\be\.g\.,?|\bsuch as|\bfor (example|instance),?) (\w+ ){0,2})$"
)
# The program says that it falls back to something else, or does without some of its tests.
_WENT_ON = re.compile(
    r"\b(falling|fell|fall) back (to|on) (?!(the )?(cpu|nouveau))|\bfallback to (?!(the )?cpu)"
    r"|\bskip(ping|ped|s)? (the |all |these |its )?(\w+ )?tests?\b"
)
# Whatever file could not be written, such a line is about the disk or shared memory.
_NO_SPACE = re.compile(r"no space left on device|disk quota exceeded")
_ABOUT_SPACE = ("disk_full", "shm_too_small")
# Log lines of services that have nothing to do with packages, downloads or models.
_GENERAL = ("conda_pip", "network", "disk", "permissions")
_OTHER_SERVICE = re.compile(
    r"(\w{2,5}\.? +\d+ [\d:]{8}|\d{4}-\d\d-\d\dt[\d:.]{8,}\S*) [\w.-]{1,60} "
    r"(?![\w./-]*(python|pip|conda|docker|container|kube|ollama|slurm|podman|cloud|kernel|llm|cuda))"
    r"[\w./-]{2,60}\[\d+\]: "
)


@dataclass(frozen=True)
class Evidence:
    """A line of the log as evidence; `line` counts from 1, and 0 is a fact about the machine."""

    line: int
    text: str


@dataclass(frozen=True)
class Match:
    """A possible cause with its confidence, evidence and steps.

    Attributes
    ----------
    confidence : 0-1, the probability that this stopped the program
    steps : what to do, in order, with the tools and on the platform of the log
    safe_fix : whether ``doctor --fix`` has a safe repair for it
    repaired_by : the check of ``doctor`` that finds and repairs it
    """

    cause: str
    confidence: float
    severity: str
    title: str
    summary: str
    source: str
    evidence: tuple[Evidence, ...]
    steps: tuple[str, ...]
    safe_fix: bool
    repaired_by: str = ""


@dataclass(frozen=True)
class Explanation:
    """The causes of an error, most likely first; empty if none is recognised."""

    matches: tuple[Match, ...] = ()
    lines_read: int = 0

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        from gpuforge.diagnose.explanation_text import render_explanation

        return render_explanation(self)

    @property
    def cause(self) -> Match | None:
        """The first match, if its confidence is high enough to name it."""
        first = self.matches[0] if self.matches else None
        return first if first and first.confidence >= NAMED else None


@dataclass
class _Case:
    """The evidence for one known error in one log."""

    error: KnownError
    score: float = 0.0
    places: list[Place] = field(default_factory=list)
    from_machine: list[str] = field(default_factory=list)

    def add(self, weight: float) -> None:
        self.score = 1 - (1 - self.score) * (1 - weight)

    @property
    def first(self) -> int:
        return min((place.position for place in self.places), default=0)


def explain(
    error: str | BaseException,
    machine: Machine | None = None,
    *,
    errors: Mapping[str, KnownError] | None = None,
) -> Explanation:
    """Return the causes of an error, most likely first.

    Parameters
    ----------
    error
        The text of a log, or an exception, whose traceback is used.
    machine
        Facts about the machine that the error comes from, if known; they improve the answer.
    errors
        The known errors to choose from, by id; all of them by default.
    """
    if isinstance(error, BaseException):
        error = "".join(traceback.format_exception(error))
    log = Log(error)
    answer = _read(log, machine, errors)
    if answer.cause:
        return answer
    # Lines are rejoined only where they hold no cause as they are: most were never broken.
    again = (_read(other, machine, errors) for other in log.rejoined())
    return next((other for other in again if other.cause), answer)


def _read(
    log: Log, machine: Machine | None, errors: Mapping[str, KnownError] | None
) -> Explanation:
    around = Surroundings(log, machine)
    choices = candidates(log.words) if errors is None else errors
    cases = [case for e in choices.values() if (case := _weigh(e, log, around))]
    ranked = _rank(cases)
    return Explanation(
        tuple(
            _match(case, confidence, log, around)
            for case, confidence in ranked
            if confidence >= LISTED
        ),
        lines_read=len(log.folded.splitlines()) if log.folded.strip() else 0,
    )


def _weigh(error: KnownError, log: Log, around: Surroundings) -> _Case | None:
    case = _Case(error)
    lines: dict[int, float] = {}
    for clue in error.clues:
        if clue.machine and clue.machine in around.failures:
            case.add(clue.weight)
            case.from_machine.append(around.failures[clue.machine])
            continue
        place = _find(clue, log, around)
        if place is not None:
            weight = clue.weight * _trust(error, clue, place, around)
            # Several clues in one line tell the same thing: they are no independent evidence.
            lines[place.line] = max(lines.get(place.line, 0.0), weight)
            case.places.append(place)
    for weight in lines.values():
        case.add(weight)
    return case if case.score > 0 else None


def _trust(error: KnownError, clue: Clue, place: Place, around: Surroundings) -> float:
    """Return the weight of a line, lower for warnings, information, documentation and the like."""
    line = place.window
    warned = _WARNING.match(line)
    doubts = (
        (0.5, clue.passing and around.has("@healthy_run")),
        (0.5, _HARMLESS.search(line)),
        (0.5, around.has("@documentation")),
        (0.5, _WENT_ON.search(line)),
        (0.4, _SUPPOSED.search(place.before[-60:])),
        (0.85, warned),
        (0.5, warned and around.has("@healthy_run")),
        (0.3, _DETAIL.match(line)),
        (0.4, error.area in _GENERAL and _OTHER_SERVICE.match(line)),
        (0.2, error.cause not in _ABOUT_SPACE and _NO_SPACE.search(line)),
        (INFORMATION, _INFORMATION.match(line)),
    )
    return prod(share for share, doubted in doubts if doubted)


def _find(clue: Clue, log: Log, around: Surroundings) -> Place | None:
    """Return the first line that matches `clue`, if its conditions are met."""
    found = None
    if clue.codes and log.words.isdisjoint(clue.codes):
        return None
    for text in clue.find:
        fitting = (p for p in log.places(text) if _fits(clue, p, around) and not log.is_heap(p))
        place = next(fitting, None)
        if place and (found is None or place.position < found.position):
            found = place
    if found is None or any(map(around.has, clue.unless)):
        return None
    return found if not clue.needs or any(map(around.has, clue.needs)) else None


def _fits(clue: Clue, place: Place, around: Surroundings) -> bool:
    if clue.match and not compiled(clue.match).search(place.window):
        return False
    if not clue.setting and (is_setting(place.window) or is_advice(place.before)):
        return False
    if clue.when == "fragmented":
        return is_fragmented(place.window, around.memory_total_bytes)
    if clue.when == "other_cuda_major":
        return around.has_other_cuda_major(place.window)
    if clue.when == "hides_module":
        return around.shows_hidden_module(place.position)
    return True


def _rank(cases: list[_Case]) -> list[tuple[_Case, float]]:
    """Return the cases by confidence, which is lower for those that yield or have a rival."""
    scores = {case.error.cause: case.score for case in cases}
    ranked = [(case, _yielded(case, scores)) for case in cases]
    ranked.sort(key=lambda item: (-round(item[1], 1), item[0].first))
    if len(ranked) > 1:
        (first, confidence), (_, rival) = ranked[0], ranked[1]
        confidence = min(CERTAIN, confidence) - max(0.0, rival - NAMED) * 0.3
        ranked[0] = (first, confidence)
        ranked[1:] = [(case, min(confidence, other)) for case, other in ranked[1:]]
    return [(case, max(0.0, min(CERTAIN, confidence))) for case, confidence in ranked]


def _yielded(case: _Case, scores: dict[str, float]) -> float:
    others = (
        [cause for cause in scores if cause != case.error.cause]
        if "*" in case.error.yields_to
        else case.error.yields_to
    )
    yields = any(scores.get(other, 0.0) >= NAMED for other in others)
    return case.score * YIELDED if yields else case.score


def _match(case: _Case, confidence: float, log: Log, around: Surroundings) -> Match:
    error = case.error
    lines: dict[int, str] = {}
    for position in sorted({place.position for place in case.places}):
        if len(lines) < EVIDENCE_LINES:
            lines[log.line_number(position)] = log.line(position)
    return Match(
        cause=error.cause,
        confidence=round(confidence, 2),
        severity=error.severity,
        title=error.title,
        summary=error.summary,
        source=error.source,
        evidence=tuple(
            [Evidence(0, text) for text in case.from_machine]
            + [Evidence(number, text) for number, text in lines.items()]
        ),
        steps=around.steps(error.steps, error.area),
        safe_fix=bool(error.repaired_by),
        repaired_by=error.repaired_by,
    )

"""Warm-up: open libraries before a call needs them, in which order, with what outcome."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any

from gpuforge.dataclass import dataclass
from gpuforge.errors import InvalidSettings
from gpuforge.runtime.libraries import Library
from gpuforge.runtime.progress_line import ProgressLine
from gpuforge.runtime.startup import record
from gpuforge.runtime.startup.opening import Opening

if TYPE_CHECKING:
    from gpuforge.runtime.session import Session

SHOWN_AFTER_SECONDS, SHOWN_EVERY_SECONDS = 0.5, 0.1
NOTHING_KNOWN = "no earlier run of this program used a library other than NumPy: name one"


@dataclass(frozen=True)
class Component:
    """The state of one library that was warmed up, or that a run opened.

    Attributes
    ----------
    state : ``waiting``, ``tested in a separate process``, ``importing``, ``ready``, ``open``,
        ``failed`` or ``left out``
    by : who requested it
    began_seconds : start time since the process began; None if the system does not report it
    elapsed_seconds : what it took
    held_seconds : CPU time of the importing thread, mostly with Python's lock held
    waited_seconds : part of `elapsed_seconds` for which the program waited for it
    overlapped_seconds : part of `elapsed_seconds` during which the program continued
    uses : number of calls that ran on it
    reason : why it failed or was left out; empty if it was not
    """

    state: str
    by: str
    began_seconds: float | None = None
    elapsed_seconds: float = 0.0
    held_seconds: float = 0.0
    waited_seconds: float = 0.0
    overlapped_seconds: float = 0.0
    uses: int = 0
    reason: str = ""


class Warmup:
    """A warm-up in progress. Made by `gpuforge.warmup`; ``await`` waits for it.

    Attributes
    ----------
    left_out : libraries that cannot be warmed up, with reasons
    reason : why nothing is warmed up; empty if something is
    """

    def __init__(
        self, session: Session, openings: list[Opening], left_out: dict[str, str], reason: str
    ) -> None:
        self._session, self._openings = session, openings
        self.left_out, self.reason = left_out, reason

    @property
    def done(self) -> bool:
        """Whether everything has finished."""
        self._session.openings.go_on()
        return all(one.outcome() is not None for one in self._openings)

    @property
    def stats(self) -> dict[str, Component]:
        """The state of each library by name, in the order of the warm-up."""
        found = components(self._openings, {})
        return found | {n: Component("left out", "", reason=r) for n, r in self.left_out.items()}

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until everything has finished, at most `timeout` seconds; return whether it has.

        A library that failed has finished, too: see `stats`. If stderr is a terminal, a line there
        shows the progress, that of the first of several threads that wait.
        """
        ends = perf_counter() + timeout if timeout is not None else None
        line, began = ProgressLine(), perf_counter()
        try:
            for place, one in enumerate(self._openings, start=1):
                while not one.wait(_step(ends)):
                    seconds = perf_counter() - began
                    if not self.done and seconds > SHOWN_AFTER_SECONDS:  # it checks the workers
                        which = f"{one.library.name}, {place} of {len(self._openings)}"
                        line.show(f"warm-up: {which}, {one.state} ({seconds:.1f} s)")
                    if ends is not None and perf_counter() >= ends:
                        return False
        finally:
            line.erase()
        self._session.openings.collect()
        return True

    def __await__(self) -> Generator[Any, None, bool]:
        return self._awaited().__await__()

    async def _awaited(self) -> bool:
        import asyncio

        while not self.done:
            await asyncio.sleep(0.01)
        self._session.openings.collect()
        return True


def _step(ends: float | None) -> float:
    if ends is None:
        return SHOWN_EVERY_SECONDS
    return max(0.0, min(SHOWN_EVERY_SECONDS, ends - perf_counter()))


def begin(session: Session, names: Iterable[str] | Mapping[str, float], by: str) -> Warmup:
    """Start to open libraries: those named, else those that this program's last run used."""
    wanted = ordered(names) or pinned(session) or learned()
    reason = "" if wanted else NOTHING_KNOWN
    libraries: list[Library] = []
    left_out: dict[str, str] = {}
    for name in wanted:
        library = session.libraries.form(name.partition(":")[0], None)
        if library is None:
            left_out[name] = "it is not installed, or the settings do not allow it"
        elif library.name != "numpy" and library not in libraries:
            libraries.append(library)
    if session.forked:
        left_out, libraries = dict.fromkeys(wanted, "this process was forked"), []
    session.openings.open_in_background(libraries, by, asked=True)
    openings = [one for one in session.openings.all if one.library in libraries]
    return Warmup(session, openings, left_out, reason)


def ordered(names: Iterable[str] | Mapping[str, float]) -> list[str]:
    """Return names by priority, highest first; names without priorities keep their order.

    Raises
    ------
    InvalidSettings
        If `names` holds anything but names, or priorities that are not numbers.
    """
    if isinstance(names, str):
        return [names]
    found = list(names) if isinstance(names, Iterable) else [names]
    if isinstance(names, Mapping):
        if not all(isinstance(priority, int | float) for priority in names.values()):
            raise InvalidSettings(f"gf.warmup: a priority is not a number in {dict(names)!r}")
        found.sort(key=lambda name: -names[name])
    for name in found:
        if not isinstance(name, str):
            raise InvalidSettings(
                f"gf.warmup: {name!r} is not the name of a library",
                hint='pass a list of names: gf.warmup(["torch", "jax"])',
            )
    return found


def pinned(session: Session) -> list[str]:
    """Return the libraries that the settings name, NumPy excluded."""
    chosen = session.settings
    named = dict.fromkeys(name.partition(":")[0] for name in (chosen.backend, *chosen.backends))
    return [name for name in named if name and name != "numpy"]


def learned() -> list[str]:
    """Return the libraries that this program's last run used, most used first."""
    kept = record.of_program(record.program()).get("libraries", {})
    used = [(-one["uses"], name) for name, one in kept.items() if one.get("uses")]
    return [name for _, name in sorted(used)]


def components(openings: Iterable[Opening], uses: Mapping[str, int]) -> dict[str, Component]:
    """Return the state of libraries by name; `uses` maps each to its number of calls."""
    found = {}
    for one in openings:
        name, took = one.library.name, one.elapsed_seconds
        # Several threads may wait, and each before its turn.
        waited = min(one.waited_seconds, took) if took else one.waited_seconds
        found[name] = Component(
            one.state, one.by, one.began_seconds, took, one.held_seconds, waited,
            max(0.0, took - waited), uses.get(name, 0), one.failure,
        )  # fmt: skip
    return found


def keep(session: Session) -> None:
    """Store the state of a session's libraries, for `gpuforge startup` and the next run."""
    if session.forked or not session.openings.all or session.history.path is None:
        return
    uses: dict[str, int] = {}
    for function in session.functions.every():
        function.count_held()
        for name, count in function.counts.items():
            library = name.partition(":")[0]
            uses[library] = uses.get(library, 0) + count.calls
    found = components(session.openings.all, uses)
    from dataclasses import asdict

    record.keep("libraries", {name: asdict(one) for name, one in found.items()})

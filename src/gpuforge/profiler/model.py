"""The data model of a profile: spans in columns, placements, series of readings, and a header."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, NamedTuple, TypeVar

from gpuforge.dataclass import dataclass, field
from gpuforge.trace import DEVICE as DEVICE
from gpuforge.trace import HOST as HOST
from gpuforge.trace import OVERHEAD as OVERHEAD
from gpuforge.trace import TRANSFER as TRANSFER
from gpuforge.trace import WAIT as WAIT

LABELS = ("host", "wait", "transfer", "overhead", "device")
"""The labels of time. On a thread's lane each instant has one of the first four: the program's own
work, waiting for a device, moving bytes to or from one, or gpuforge's own work. ``device`` is used
only on the lanes of devices, where it means busy; these overlap with the threads' lanes."""
NO_PARENT = -1
ITSELF = "the program"
"""What recorded a profile, in its header, if the program did so with ``gf.profile``."""
PROGRAM = "program"
"""Name of the span around everything on the thread that started the profile."""
T = TypeVar("T")


class Lane(NamedTuple):
    """A row of the timeline: a thread, or a queue of a device.

    Attributes
    ----------
    name : name of the thread, or ``torch:cuda:0 compute``
    kind : ``thread`` or ``device``
    process : process id
    """

    name: str
    kind: str = "thread"
    process: int = 0


@dataclass(frozen=True)
class Span:
    """One row of `Spans` as an object.

    Attributes
    ----------
    index, parent : its own index and that of its parent, or `NO_PARENT`
    label : index into `LABELS`
    start_ns, duration_ns : start since the profile began; the duration includes spans inside
    bytes : bytes that it moved; 0 for none
    count : number of spans that were merged into this one; 1 for a single span
    attributes : its attributes
    """

    index: int
    parent: int
    name: str
    lane: int
    label: int
    start_ns: int
    duration_ns: int
    bytes: int
    count: int
    attributes: dict[str, Any]

    @property
    def end_ns(self) -> int:
        """When it ended; merged spans count as if they had followed each other."""
        return self.start_ns + self.duration_ns


@dataclass
class Spans:
    """Spans in columns of equal length, those of a lane in order of their start.

    Parents come before their children. `name` contains indices into `names`, and `parent` indices
    into these columns. `attributes` is sparse: a span without attributes has no entry. The usual
    keys are ``function``, ``file`` and ``line`` (the user's code), ``backend``, ``shape``,
    ``dtype``, ``direction`` (``to device`` or ``from device``), ``error`` (the exception that ended
    it), ``memory_peak_bytes`` and ``operation``.
    """

    names: list[str] = field(default_factory=list)
    name: array[int] = field(default_factory=lambda: array("I"))
    parent: array[int] = field(default_factory=lambda: array("q"))
    lane: array[int] = field(default_factory=lambda: array("I"))
    label: array[int] = field(default_factory=lambda: array("B"))
    start: array[int] = field(default_factory=lambda: array("q"))
    duration: array[int] = field(default_factory=lambda: array("q"))
    bytes: array[int] = field(default_factory=lambda: array("q"))
    count: array[int] = field(default_factory=lambda: array("q"))
    attributes: dict[int, dict[str, Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, index: int) -> Span:
        return Span(
            index, self.parent[index], self.names[self.name[index]], self.lane[index],
            self.label[index], self.start[index], self.duration[index], self.bytes[index],
            self.count[index], self.attributes.get(index, {}),
        )  # fmt: skip

    def __iter__(self) -> Iterator[Span]:
        return map(self.__getitem__, range(len(self)))

    def add(
        self, name: int, parent: int, lane: int, label: int, start: int, duration: int,
        nbytes: int = 0, count: int = 1, attributes: dict[str, Any] | None = None,
    ) -> int:  # fmt: skip
        """Append a span and return its index."""
        index = len(self.start)
        self.name.append(name)
        self.parent.append(parent)
        self.lane.append(lane)
        self.label.append(label)
        self.start.append(start)
        self.duration.append(duration)
        self.bytes.append(nbytes)
        self.count.append(count)
        if attributes:
            self.attributes[index] = attributes
        return index


@dataclass(frozen=True)
class Placement:
    """A choice of backend, and the calls that it placed.

    Attributes
    ----------
    at_ns : time of the choice since the profile began
    function, signature : the name of the function, and the shapes and dtypes as text
    backend : where the calls ran
    seconds : total time of all `calls`
    calls : number of calls that ran under this choice
    predicted_seconds : predicted time of one call, by candidate
    transfer_seconds : the part of `seconds` spent on moving bytes
    reason : why this backend was chosen, or why others were left out
    """

    at_ns: int
    function: str
    signature: str
    backend: str
    seconds: float
    calls: int = 1
    predicted_seconds: dict[str, float] = field(default_factory=dict)
    transfer_seconds: float = 0.0
    reason: str = ""


@dataclass
class Series:
    """A reading over time.

    Attributes
    ----------
    name : ``memory``, ``memory in use``, ``utilisation``, ``clock``, ``throttled``, …
    unit : ``bytes``, ``ratio``, ``watts``, …
    device : what was read: ``host``, ``gpu 0`` as numbered by detection, or a backend
    times_ns, values : columns of equal length; times at which nothing could be read are left out
    """

    name: str
    unit: str
    device: str = "host"
    times_ns: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))


@dataclass
class Profile:
    """The content of a session file.

    Attributes
    ----------
    header
        What ran: ``program`` (the command line as a list), ``started`` (seconds since 1970),
        ``recorded_by`` (`ITSELF` for ``gf.profile``), ``gpuforge``, ``python``, ``platform``,
        ``versions`` (library to version), ``machine`` (as ``gpuforge detect --json`` shows it, with
        the highest clocks of GPUs), ``peaks`` (by backend, as `gpuforge.profiler.rates` reads
        them), ``unknown`` (reasons by field).
    wall_ns
        Time from the beginning to the end of the recording.
    cost_ns
        Estimated cost of the recording itself, from the calibrated cost of a span; 0 if unknown.
    notes
        What a reader must know, such as what was merged or dropped.
    complete
        Whether the recording was ended properly; False after a crash.
    derived
        The results that `once` memoizes.
    """

    header: dict[str, Any] = field(default_factory=dict)
    lanes: list[Lane] = field(default_factory=list)
    spans: Spans = field(default_factory=Spans)
    placements: list[Placement] = field(default_factory=list)
    series: list[Series] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    wall_ns: int = 0
    cost_ns: int = 0
    notes: list[str] = field(default_factory=list)
    complete: bool = True
    derived: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def command(self) -> list[str]:
        """The words of the command line; empty if the header does not contain them."""
        words = self.header.get("program")
        return list(map(str, words)) if isinstance(words, list | tuple) else []

    @property
    def program(self) -> str:
        """The command line as one text."""
        return " ".join(self.command) or str(self.header.get("program") or "")

    def said(self, name: str) -> dict[str, Any]:
        """Return a table of the header; empty if there is none of this name."""
        found = self.header.get(name)
        return found if isinstance(found, dict) else {}


def once(make: Callable[[Profile], T]) -> Callable[[Profile], T]:
    """Memoize an analysis of a profile; reports use the same ones in many places."""

    @wraps(make)
    def found(profile: Profile) -> T:
        key = make, len(profile.spans), len(profile.placements)  # the profile may still grow
        if key not in profile.derived:
            profile.derived[key] = make(profile)
        return profile.derived[key]  # type: ignore[no-any-return]

    return found

"""One file per array library. A backend is a library on a device: ``torch:cuda:0``.

A module holds ``LIBRARY`` (the name to import), ``open_devices() -> list[Backend]``, which imports
the library, ``NAMED_ONLY`` if only who names it uses it, ``COMPILES`` if it compiles each graph,
and nothing that runs at import. Being found costs no import of the library; being opened ends in a
first real result compared with NumPy's. What a library does not do as NumPy is declared as data:
``DEVIATIONS``, operation to reason.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from gpuforge.dataclass import dataclass
from gpuforge.errors import UnknownName

GPUS = ("cuda", "rocm", "xpu", "mps", "metal", "gpu")
DEVICES = ("cpu", "gpu", *GPUS[:-1], "tpu", "accelerator")
"""What a device may be called; ``gpu`` stands for any, whatever its library calls it."""
if TYPE_CHECKING:
    from gpuforge.detect.free_memory import FreeMemory
    from gpuforge.runtime.array.graph import Graph
    from gpuforge.runtime.lowering.contract import Lowering
    from gpuforge.runtime.staging import Staging
    from gpuforge.runtime.timing import Timer

_KNOWN = {
    "cupy": ("cupy", False),
    "dpnp": ("dpnp", False),
    "jax": ("jax", False),
    "mlx": ("mlx", True),
    "numpy": ("numpy", False),
    "opencl": ("pyopencl", True),
    "torch": ("torch", False),
}
"""``LIBRARY`` and ``NAMED_ONLY`` of modules here, which are then not imported to be listed: that
takes 10 ms of a program's first call. A module that is not in it is imported."""
GROUP = "gpuforge.backends"
"""The entry points by which other packages add backends."""
LOST = (
    "illegal memory access", "illegal_address", "device-side assert", "misaligned address",
    "unspecified launch failure", "launch_failed", "illegal instruction", "hardware stack error",
    "invalid program counter", "uncorrectable ecc", "device is lost", "device_lost", "device lost",
)  # fmt: skip
"""What libraries say when a device has failed for the process: every later call fails, too.

Source: CUDA Runtime API, "CUDA error types", those after which "the process must be terminated".
"""
Array = np.ndarray[Any, Any]
Program = Callable[..., Any]


class Backend(Protocol):
    """What the rest of the runtime knows of an array library on a device; with what most share.

    Attributes
    ----------
    name : ``LIBRARY:DEVICE`` or ``LIBRARY:DEVICE:INDEX``
    version : of the library, as it names itself
    lowering : how it does the operations of the table
    compiles : whether a program is compiled for each new signature
    on_host : whether its arrays lie where NumPy's do, so that `put` and `get` need move nothing
    dies_when_short : whether the library ends the process where an allocation fails
    floor_seconds : wall time of its fastest call, measured when it was opened
    compile_seconds : what its first program took to compile, measured then; 0 if it compiles none
    staging : what speeds its large copies up; None where nothing does
    """

    name: str
    version: str
    lowering: Lowering
    compiles: bool = False
    on_host: bool = False
    dies_when_short: bool = False
    floor_seconds: float = 0.0
    compile_seconds: float = 0.0
    staging: Staging | None = None

    @property
    def deterministic(self) -> bool:
        """Whether the same call gives the same bits every time."""
        return True

    def put(self, array: Array) -> Any:
        """Return `array` on the device; its memory may be used, and is not written into."""

    def get(self, array: Any) -> Array:
        """Return a NumPy array with the content of `array`, which may share its memory."""

    def plan(self, graph: Graph) -> Any:
        """Return what runs a whole graph, as a `Program` does; None: it is run step by step."""
        return None

    def away(self) -> str:
        """Return why it cannot be used for a while; empty where it can."""
        return ""

    def program(self, function: Program, given: Sequence[Any]) -> Program:
        """Return what is called in place of `function`: itself, or a form compiled for `given`."""
        return function

    @property
    def stored_under(self) -> str:
        """What a compiled program depends on besides its graph; empty where none is kept."""
        return ""

    def stored(self, program: Program) -> bytes:
        """Return a compiled program as another process can load it.

        Raises whatever the library raises where it cannot write this one down.
        """
        return b""

    def restored(self, data: bytes) -> Program:
        """Return the program that `stored` wrote down."""
        raise ValueError(f"{self.name} keeps no programs")

    def scope(self) -> AbstractContextManager[Any]:
        """Return the context that calls run in: precision, device; no global state."""
        return nullcontext()

    def wait(self, value: Any) -> None:
        """Return when everything submitted for `value` is done."""

    def timer(self) -> Timer | None:
        """Return what watches the work submitted from now on; None where the library tells nothing.

        Asked for while tracing is on only.
        """
        return None

    def exhausted(self, error: BaseException) -> bool:
        """Return whether `error` means that memory ran out."""

    def lost(self, error: BaseException) -> bool:
        """Return whether `error` means that this process cannot use the device any more."""
        text = str(error).lower()
        return device_of(self.name) != "cpu" and any(mark in text for mark in LOST)

    def release(self) -> None:
        """Give cached device memory back, where the library keeps some."""
        return

    def memory(self) -> FreeMemory | None:
        """Return the free and all bytes of the memory it takes; None where that is not known."""
        return None


@dataclass(frozen=True)
class Failure:
    """A backend that is left out, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Opened:
    """The outcome of opening one library.

    Attributes
    ----------
    seconds : what it took in all
    """

    devices: tuple[Backend, ...] = ()
    failures: tuple[Failure, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class Listing:
    """Whether one backend can be used, without importing its library.

    Attributes
    ----------
    name : of the backend: its module here, or its entry point
    library : the name that its library is imported by
    found : whether that is installed
    loaded : whether the user's program has imported it already
    reason : why it cannot be used; empty when it was found
    named_only : whether it is used by those only who name it: it may end the process
    """

    name: str
    library: str
    found: bool
    loaded: bool
    reason: str = ""
    named_only: bool = False


def names(*, plugins: bool = False) -> tuple[str, ...]:
    """Return the names of the backends here and, with `plugins`, of those in other packages."""
    own = _own()
    return (*own, *sorted(set(_entry_points()) - set(own))) if plugins else own


@cache
def _own() -> tuple[str, ...]:
    """Return the names of the modules here; `pkgutil` takes milliseconds to import.

    Where they lie in an archive, those that are known.
    """
    found = {file.stem for file in Path(__file__).parent.glob("*.py")}
    return tuple(sorted(n for n in {*_KNOWN, *found} if n.isidentifier() and n[0] != "_"))


def load(name: str) -> ModuleType:
    """Import the module of one backend, not its library.

    A module here goes before an entry point of the same name.
    """
    if name in _own():
        return import_module(f"{__name__}.{name}")
    return cast(ModuleType, _entry_points()[name].load())


def compiles(name: str) -> bool:
    """Return whether a backend compiles each graph before it runs: `Backend.compiles`."""
    return bool(getattr(load(name), "COMPILES", False))


def about(name: str) -> tuple[str, bool]:
    """Return what a backend's library is imported by, and whether only who names it uses it."""
    if name in _own() and name in _KNOWN:
        return _KNOWN[name]
    module = load(name)
    return module.LIBRARY, bool(getattr(module, "NAMED_ONLY", False))


def list_backends(*, plugins: bool = False) -> tuple[Listing, ...]:
    """Return every registered backend and whether its library is there, which is not imported."""
    return tuple(_list(name) for name in names(plugins=plugins))


def libraries() -> set[str]:
    """Return the names that the libraries of all backends known so far are imported by."""
    return {entry.library for entry in list_backends(plugins=bool(_entry_points.cache_info()[3]))}


def _list(name: str) -> Listing:
    try:
        library, named_only = about(name)
        loaded = library in sys.modules
        found = loaded or find_spec(library) is not None
    except Exception as error:  # noqa: BLE001 - another package's module may fail in any way
        return Listing(name, name, False, False, f"{type(error).__name__}: {error}")
    reason = "" if found else f"{library} is not installed"
    return Listing(name, library, found, loaded, reason, named_only)


@cache
def installed_version(name: str) -> str:
    """Return the version of a backend's library, as its package says; empty where none does."""
    library = about(name)[0].split(".")[0]
    if told := _version_beside(library):
        return told
    from importlib.metadata import PackageNotFoundError, packages_distributions, version

    try:
        return version(library)
    except PackageNotFoundError:
        found = packages_distributions().get(library, [])
        return " ".join(sorted(version(one) for one in found))


def _version_beside(library: str) -> str:
    """Return the version in the name of the folder that an installer put beside a library.

    importlib.metadata takes 20 to 40 ms for it, which programs that place calls would wait for.
    """
    try:
        spec = find_spec(library)
    except ValueError:  # a module of that name is there that no file was loaded for
        return ""
    if spec is None or not spec.origin:
        return ""
    beside = list(Path(spec.origin).parents[1].glob(f"{library}-*.dist-info"))
    if len(beside) != 1:
        return ""
    return beside[0].name.removesuffix(".dist-info").partition("-")[2]


@cache
def _entry_points() -> dict[str, Any]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP)}


def device_of(name: str) -> str:
    """Return the device in a backend's name: ``cpu``, ``cuda``, ``mps``, ..."""
    return name.split(":")[1] if ":" in name else "cpu"


def is_on(name: str, device: str) -> bool:
    """Return whether a backend's name says that it computes on a device; ``gpu`` is any GPU."""
    place = device_of(name)
    return device in (place, name.partition(":")[2]) or (device == "gpu" and place in GPUS)


def check_device(name: str) -> None:
    """Raise UnknownName unless a device may be called so."""
    if name not in DEVICES:
        raise UnknownName.among("device", name, DEVICES)


def matches(name: str, wanted: Iterable[str]) -> bool:
    """Return whether a backend's name is one of `wanted` or begins with one: torch, torch:cuda."""
    return any(name == other or name.startswith(other + ":") for other in wanted)

"""One file per array library. A backend is a library on a device: ``torch:cuda:0``.

A module defines ``LIBRARY`` (the name to import), ``open_devices() -> list[Backend]``, which
imports the library, ``NAMED_ONLY`` if it is used only when named, and ``COMPILES`` if it compiles
each graph; it runs nothing at import. Listing a backend does not import its library; opening one
ends with a first result compared with NumPy's. Known differences from NumPy are declared as data:
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
"""Valid device names; ``gpu`` stands for any GPU, whatever its library calls it."""
if TYPE_CHECKING:
    from gpuforge.detect.free_memory import FreeMemory
    from gpuforge.runtime.array.graph import Graph
    from gpuforge.runtime.lowering.contract import Lowering
    from gpuforge.runtime.staging import Staging
    from gpuforge.runtime.timing import Timer

_KNOWN = {
    "blocks": ("numpy", False),
    "cupy": ("cupy", False),
    "dpnp": ("dpnp", False),
    "jax": ("jax", False),
    "mlx": ("mlx", True),
    "numpy": ("numpy", False),
    "opencl": ("pyopencl", True),
    "torch": ("torch", False),
}
"""``LIBRARY`` and ``NAMED_ONLY`` of the modules here, so that listing them does not import them,
which takes 10 ms of a program's first call. A module that is missing here is imported."""
GROUP = "gpuforge.backends"
"""The entry point group in which other packages register backends."""
LOST = (
    "illegal memory access", "illegal_address", "device-side assert", "misaligned address",
    "unspecified launch failure", "launch_failed", "illegal instruction", "hardware stack error",
    "invalid program counter", "uncorrectable ecc", "device is lost", "device_lost", "device lost",
)  # fmt: skip
"""Error texts of libraries after which every later call of this process on the device fails.

Source: CUDA Runtime API, "CUDA error types", those after which "the process must be terminated".
"""
Array = np.ndarray[Any, Any]
Program = Callable[..., Any]


class Backend(Protocol):
    """The interface of an array library on a device, with common default implementations.

    Attributes
    ----------
    name : ``LIBRARY:DEVICE`` or ``LIBRARY:DEVICE:INDEX``
    version : the library's version
    lowering : how it computes the operations of the table
    compiles : whether a program is compiled for each new signature
    on_host : whether its arrays are in host memory, so that `put` and `get` need not move data
    dies_when_short : whether the library ends the process when an allocation fails
    floor_seconds : minimum wall time of a call, measured when it was opened
    compile_seconds : time to compile its first program, measured when that was compiled; 0 if it
        does not compile
    staging : speeds up its large copies; None if nothing does
    threads : threads on which its programs run over blocks of NumPy's arrays; 0 if they do not
    tape_limit : a graph with more entries ends at the next iteration of a loop; that of large
        arrays after fewer (`array/recorder.py`)
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
    threads: int = 0
    tape_limit: int = 128

    @property
    def deterministic(self) -> bool:
        """Return whether the same call always gives the same bits."""
        return True

    def put(self, array: Array) -> Any:
        """Return `array` on the device; it may share the memory but must not write into it."""

    def get(self, array: Any) -> Array:
        """Return `array` as a NumPy array, which may share its memory."""

    def plan(self, graph: Graph) -> Any:
        """Return an object that runs a graph like a `Program`; None to run it step by step."""
        return None

    def away(self) -> str:
        """Return why it is temporarily unavailable; empty if it is available."""
        return ""

    def program(self, function: Program, given: Sequence[Any]) -> Program:
        """Return the callable for a program: itself, or a form compiled for inputs like `given`."""
        return function

    @property
    def stored_under(self) -> str:
        """Return what a compiled program depends on besides its graph; empty if none is stored."""
        return ""

    def stored(self, program: Program) -> bytes:
        """Serialize a compiled program for other processes.

        Raises whatever the library raises if it cannot.
        """
        return b""

    def restored(self, data: bytes) -> Program:
        """Return the program that `stored` serialized."""
        raise ValueError(f"{self.name} keeps no programs")

    def scope(self) -> AbstractContextManager[Any]:
        """Return the context in which calls run, such as precision and device; no global state."""
        return nullcontext()

    def wait(self, value: Any) -> None:
        """Block until everything submitted for `value` is done."""

    def timer(self) -> Timer | None:
        """Return a timer of the work submitted from now on; None if the library has no events.

        Only called while tracing is on.
        """
        return None

    def exhausted(self, error: BaseException) -> bool:
        """Return whether `error` means that memory ran out."""

    def lost(self, error: BaseException) -> bool:
        """Return whether `error` means that the device is lost for this process."""
        text = str(error).lower()
        return device_of(self.name) != "cpu" and any(mark in text for mark in LOST)

    def release(self) -> None:
        """Release cached device memory, if the library caches any."""
        return

    def memory(self) -> FreeMemory | None:
        """Return the free and total bytes of its memory; None if unknown."""
        return None


@dataclass(frozen=True)
class Failure:
    """A backend that cannot be used, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Opened:
    """The outcome of opening one library.

    Attributes
    ----------
    seconds : total time
    """

    devices: tuple[Backend, ...] = ()
    failures: tuple[Failure, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class Listing:
    """Whether one backend can be used, without importing its library.

    Attributes
    ----------
    name : name of the backend: of its module here, or its entry point
    library : name under which its library is imported
    found : whether the library is installed
    loaded : whether the user's program has already imported it
    reason : why it cannot be used; empty if it was found
    named_only : whether it is used only when named, because it may end the process
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
    """Return the names of the modules here, without `pkgutil`, which takes milliseconds to import.

    Inside an archive, return the names in `_KNOWN`.
    """
    found = {file.stem for file in Path(__file__).parent.glob("*.py")}
    return tuple(sorted(n for n in {*_KNOWN, *found} if n.isidentifier() and n[0] != "_"))


def load(name: str) -> ModuleType:
    """Import the module of one backend, but not its library.

    A module here takes precedence over an entry point of the same name.
    """
    if name in _own():
        return import_module(f"{__name__}.{name}")
    return cast(ModuleType, _entry_points()[name].load())


def compiles(name: str) -> bool:
    """Return whether a backend compiles each graph before it runs: `Backend.compiles`."""
    return bool(getattr(load(name), "COMPILES", False))


def about(name: str) -> tuple[str, bool]:
    """Return the import name of a backend's library, and whether it is used only when named."""
    if name in _own() and name in _KNOWN:
        return _KNOWN[name]
    module = load(name)
    return module.LIBRARY, bool(getattr(module, "NAMED_ONLY", False))


def list_backends(*, plugins: bool = False) -> tuple[Listing, ...]:
    """Return all registered backends and whether their libraries are installed; import none."""
    return tuple(_list(name) for name in names(plugins=plugins))


def libraries() -> set[str]:
    """Return the import names of the libraries of all backends known so far."""
    return {entry.library for entry in list_backends(plugins=bool(_entry_points.cache_info()[3]))}


def _list(name: str) -> Listing:
    from gpuforge.installation import loaded

    try:
        library, named_only = about(name)
        is_loaded = loaded(library) is not None
        found = library in sys.modules or find_spec(library) is not None
    except Exception as error:  # noqa: BLE001 - another package's module may fail in any way
        return Listing(name, name, False, False, f"{type(error).__name__}: {error}")
    reason = "" if found else f"{library} is not installed"
    return Listing(name, library, found, is_loaded, reason, named_only)


@cache
def installed_version(name: str) -> str:
    """Return the version of a backend's library from its package metadata; empty if unknown."""
    library = about(name)[0].split(".")[0]
    if told := _version_from_folder(library):
        return told
    from importlib.metadata import PackageNotFoundError, packages_distributions, version

    try:
        return version(library)
    except PackageNotFoundError:
        found = packages_distributions().get(library, [])
        return " ".join(sorted(version(one) for one in found))


def _version_from_folder(library: str) -> str:
    """Return the version in the name of a library's ``.dist-info`` folder.

    importlib.metadata takes 20 to 40 ms for it, for which programs that place calls would wait.
    """
    try:
        spec = find_spec(library)
    except (ImportError, ValueError):  # a finder refuses it; it was not loaded from a file
        return ""
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    if len(folders) != 1:  # MLX's has no origin, since it is a namespace package
        return ""
    beside = list(Path(folders[0]).parent.glob(f"{library}-*.dist-info"))
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
    """Return whether a backend's name contains a device; ``gpu`` matches any GPU."""
    place = device_of(name)
    return device in (place, name.partition(":")[2]) or (device == "gpu" and place in GPUS)


def check_device(name: str) -> None:
    """Raise UnknownName unless `name` is a valid device name."""
    if name not in DEVICES:
        raise UnknownName.among("device", name, DEVICES)


def matches(name: str, wanted: Iterable[str]) -> bool:
    """Return whether a backend's name is one of `wanted` or begins with one: torch, torch:cuda."""
    return any(name == other or name.startswith(other + ":") for other in wanted)

"""What is known of a machine: plain values, no I/O.

A reading is a value, `Absent` with a reason (the machine does not have or show it), or `Failed`
with a reason (it should be there and reading it went wrong): never 0, -1 or a guess.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, TypeVar

from gpuforge.dataclass import dataclass, field

T = TypeVar("T")

Vendor = Literal["nvidia", "amd", "intel", "apple", "other"]
Status = Literal["ok", "no_gpu", "driver_error"]


@dataclass(frozen=True)
class Absent:
    """There is nothing to read, and why."""

    reason: str

    def __bool__(self) -> bool:
        return False


@dataclass(frozen=True)
class Failed:
    """Reading went wrong, and how. `kind` is one of the error kinds of ``detect --json``."""

    reason: str
    kind: str = "failed"

    def __bool__(self) -> bool:
        return False


Reading: TypeAlias = T | Absent | Failed
NOT_SHOWN = Absent("no source on this machine shows it")


def known(reading: Reading[T]) -> T | None:
    """Return the value of `reading`, or None when it is absent or failed."""
    return None if isinstance(reading, Absent | Failed) else reading


@dataclass(frozen=True)
class Driver:
    """A kernel or user driver.

    Attributes
    ----------
    name : ``nvidia``, ``amdgpu``, ``i915``, ``xe``, ...
    version : text as the vendor prints it
    """

    name: str
    version: Reading[str] = NOT_SHOWN


@dataclass(frozen=True)
class Toolkit:
    """A runtime that programs are built against: CUDA, ROCm, Level Zero, OpenCL, Metal."""

    name: str
    version: Reading[str] = NOT_SHOWN


@dataclass(frozen=True)
class Device:
    """One GPU, or one instance of a partitioned one.

    Attributes
    ----------
    index : place in the list of the whole machine, from 0
    memory_total_bytes, memory_free_bytes : bytes
    compute_capability : NVIDIA's, as text: ``"9.0"``
    architecture : AMD's gfx name (``"gfx90a"``) or the name of the family (``"hopper"``)
    pci_address : ``"0000:01:00.0"``, lower case, a domain of at least four digits
    pci_id : ``"10de:2204"``, vendor and device in hex
    score : 0-100, fitness for machine learning (`gpuforge.detect.score`)
    partitions : names of the MIG instances that the GPU is cut into; empty when it is whole
    virtual : whether it is a share of a GPU that a hypervisor gives out (vGPU)
    origins : field name to the route that told it (``{"name": "nvml"}``)
    """

    index: int
    vendor: Vendor
    name: Reading[str] = NOT_SHOWN
    memory_total_bytes: Reading[int] = NOT_SHOWN
    memory_free_bytes: Reading[int] = NOT_SHOWN
    driver: Reading[Driver] = NOT_SHOWN
    runtimes: tuple[Toolkit, ...] = ()
    compute_capability: Reading[str] = NOT_SHOWN
    architecture: Reading[str] = NOT_SHOWN
    pci_address: Reading[str] = NOT_SHOWN
    pci_id: Reading[str] = NOT_SHOWN
    uuid: Reading[str] = NOT_SHOWN
    integrated: Reading[bool] = NOT_SHOWN
    score: Reading[int] = NOT_SHOWN
    partitions: Reading[tuple[str, ...]] = NOT_SHOWN
    virtual: Reading[bool] = NOT_SHOWN
    origins: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Host:
    """The CPU side of a machine.

    Attributes
    ----------
    cores : logical CPUs this process may use (affinity and cgroup counted)
    memory_total_bytes : bytes this process may use (cgroup counted)
    isa : names of the vector extensions present, such as ``avx2``
    platform : ``linux``, ``windows``, ``macos``, ``wsl2``, ``jetson`` or ``freebsd``
    machine : ``x86_64``, ``aarch64``, ``arm64``
    """

    platform: Reading[str] = NOT_SHOWN
    machine: Reading[str] = NOT_SHOWN
    cpu_model: Reading[str] = NOT_SHOWN
    cores: Reading[int] = NOT_SHOWN
    memory_total_bytes: Reading[int] = NOT_SHOWN
    isa: tuple[str, ...] = ()
    libc: Reading[str] = NOT_SHOWN
    virtual_machine: Reading[str] = NOT_SHOWN
    container: Reading[str] = NOT_SHOWN
    cloud_instance: Reading[str] = NOT_SHOWN


@dataclass(frozen=True)
class VendorFailure:
    """A vendor whose GPUs are or may be there and could not be read."""

    vendor: str
    kind: str
    message: str


@dataclass(frozen=True)
class NotGpu:
    """Something that a reader may take for a GPU and that computes nothing here, and why."""

    name: Reading[str] = NOT_SHOWN
    pci_address: Reading[str] = NOT_SHOWN
    pci_id: Reading[str] = NOT_SHOWN
    why: str = ""


@dataclass(frozen=True)
class Machine:
    """Everything that detection found, in one value.

    Attributes
    ----------
    status : ``driver_error`` when a GPU is or may be there and its driver or tool fails
    devices : GPUs that this process may use, in the order of their index
    hidden : GPUs that a visible-device variable hides from this process
    others : what is on the machine and is no GPU: virtual displays, NVSwitch, NPUs
    failures : vendors that could not be read, each with its kind and message
    error : the failure that makes the status ``driver_error``
    visibility : visible-device variables that are set, name to value
    toolkits : runtimes of the machine, such as the CUDA version that the driver serves
    best_device : index of the device with the highest score, or None
    elapsed_seconds : what detection took
    from_cache : whether the facts come from the disk
    notes : what was skipped or rebuilt, one sentence each
    timings : seconds of each detector and phase
    """

    status: Status
    devices: tuple[Device, ...] = ()
    failures: tuple[VendorFailure, ...] = ()
    error: VendorFailure | None = None
    host: Host = field(default_factory=Host)
    hidden: tuple[Device, ...] = ()
    others: tuple[NotGpu, ...] = ()
    toolkits: tuple[Toolkit, ...] = ()
    visibility: dict[str, str] = field(default_factory=dict)
    best_device: int | None = None
    elapsed_seconds: float = 0.0
    from_cache: bool = False
    notes: tuple[str, ...] = ()
    timings: dict[str, float] = field(default_factory=dict)

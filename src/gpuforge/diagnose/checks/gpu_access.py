"""Do the drivers answer, and may this user open the devices?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.diagnose.finding import Finding, of_cause
from gpuforge.diagnose.site import Site
from gpuforge.facts import VendorFailure, known

SUMMARY = "GPU drivers respond and devices can be opened"

CAUSES = {
    "version_mismatch": "driver_library_version_mismatch",
    "driver_not_loaded": "nvidia_driver_not_loaded",
    "no_devices": "nvidia_driver_not_loaded",
    "gpu_lost": "gpu_fell_off_bus",
    "nvml_unknown_error": "container_nvml_unknown_error",
    "os_blocked": "wsl_gpu_not_exposed",
    "kfd_permission": "kfd_permission_denied",
    "no_level_zero_permission": "level_zero_runtime_missing",
}
# Steps for kinds of failure without a known error of their own.
STEPS = {
    "kfd_not_loaded": (
        "Load the module: sudo modprobe amdgpu; if that fails, see why: dmesg | grep amdgpu",
        "Install the kernel driver of your ROCm release (amdgpu-dkms), or a newer kernel.",
    ),
    "no_kernel_driver": (
        "See which driver the card needs: lspci -nnk",
        "Install the vendor's driver and reboot.",
    ),
}


def check(site: Site) -> Iterator[Finding]:
    """Yield one finding for each vendor that fails, and one for the available GPUs."""
    machine = site.machine
    judged = machine.error
    failures = dict.fromkeys((*([judged] if judged else []), *machine.failures))
    for failure in failures:
        yield _finding(failure, is_error=failure == judged)
    if machine.devices:
        names = [f"{known(d.name) or d.vendor} (GPU {d.index})" for d in machine.devices]
        yield Finding("ok", f"{len(names)} GPU is available" if len(names) == 1 else
                      f"{len(names)} GPUs are available", evidence=tuple(names))  # fmt: skip
    elif not failures:
        yield Finding("ok", "no GPU found; programs run on the CPU")


def _finding(failure: VendorFailure, *, is_error: bool) -> Finding:
    state, evidence = ("error", (failure.message,)) if is_error else ("warning", (failure.message,))
    cause = CAUSES.get(failure.kind)
    if failure.kind == "no_kernel_driver" and failure.vendor == "nvidia":
        cause = "nvidia_driver_not_loaded"
    if cause:
        return of_cause(cause, state, evidence=evidence)  # type: ignore[arg-type]
    message = f"{failure.vendor}: {failure.message}"
    steps = STEPS.get(failure.kind, ())
    return Finding(state, message, failure.kind, evidence, steps)  # type: ignore[arg-type]

"""Do environment variables hide devices or put wrong libraries first?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpuforge.changes.action import AppendLines
from gpuforge.diagnose.finding import Finding, State, of_cause
from gpuforge.diagnose.site import Site

SUMMARY = "variables hide no device and shadow no library"

UNSET = ("# gpuforge: the environment brings its own CUDA libraries", "unset LD_LIBRARY_PATH")
# What a cause that the user named asks for; nothing on the machine shows that it is needed.
WANTED = {
    "gpu_memory_fragmentation": ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
    "mps_op_not_implemented": ("PYTORCH_ENABLE_MPS_FALLBACK", "1"),
    "p2p_access_failure": ("NCCL_P2P_DISABLE", "1"),
}
FOLDERS = ("CUDA_HOME", "CUDA_PATH", "CUDNN_PATH", "ROCM_PATH", "ROCM_HOME")


def check(site: Site) -> Iterator[Finding]:
    """Return each variable that stands in the way."""
    found = [
        *_hiding(site),
        *_shadowing(site),
        *_dangling(site),
        *_contradicting(site),
        *_wanted(site),
    ]
    yield from found or [Finding("ok", "no variable stands in the way")]


def _hiding(site: Site) -> Iterator[Finding]:
    if site.machine.hidden:
        names = tuple(f"{name}={value}" for name, value in site.machine.visibility.items())
        count = len(site.machine.hidden)
        message = f"{count} of {count + len(site.machine.devices)} GPUs are hidden from programs"
        state = "warning" if site.machine.devices else "error"
        yield of_cause("cuda_visible_devices_wrong", state, message, evidence=names)  # type: ignore[arg-type]


def _shadowing(site: Site) -> Iterator[Finding]:
    """Find CUDA libraries on the loader's path although the environment brings its own."""
    own = [name for name in site.packages if name.startswith(("nvidia-cu", "nvidia-nvjitlink"))]
    value = site.probe.environ.get("LD_LIBRARY_PATH", "")
    folders = tuple(folder for folder in value.split(":") if folder and _holds_cuda(site, folder))
    if own and folders:
        script = site.activation
        if site.in_activation(UNSET[1]):
            steps = (f"source {script}",)
            message = "LD_LIBRARY_PATH is set here, and the activation takes it away: activate anew"
            yield Finding("warning", message, "", folders, steps)
            return
        repair = (AppendLines(script, UNSET),) if site.is_environment else ()
        yield of_cause("ld_library_path_shadow", "warning", evidence=folders, repair=repair)


def _holds_cuda(site: Site, folder: str) -> bool:
    names = site.probe.list_dir(folder)
    return isinstance(names, tuple) and any(
        name.startswith(("libcublas", "libcudart.so", "libnvJitLink", "libcudnn")) for name in names
    )


def _wanted(site: Site) -> Iterator[Finding]:
    for cause in site.asked:
        if cause not in WANTED:
            continue
        name, value = WANTED[cause]
        if "+rocm" in (site.version("torch") or ""):
            name = name.replace("PYTORCH_CUDA", "PYTORCH_HIP")
        line = f"export {name}={value}"
        if set_to := site.probe.environ.get(name):
            state: State = "ok" if value in set_to else "warning"
            yield Finding(state, f"{name} is set to {set_to}; {cause} asks for {value}")
        elif site.in_activation(line):
            steps = (f"source {site.activation}",)
            yield Finding("warning", f"the activation sets {name}: activate anew", steps=steps)
        else:
            repair = (AppendLines(site.activation, (line,)),) if site.is_environment else ()
            yield of_cause(cause, "warning", f"{name} is not set", repair=repair)


def _dangling(site: Site) -> Iterator[Finding]:
    for name in FOLDERS:
        value = site.probe.environ.get(name)
        if value and site.live and not Path(value).is_dir():
            steps = (f"Unset {name}, or point it at a folder that exists.",)
            yield Finding("warning", f"{name} names a folder that is not there",
                          "nvcc_not_found_cuda_home", (f"{name}={value}",), steps)  # fmt: skip


def _contradicting(site: Site) -> Iterator[Finding]:
    both = [v for v in ("ONEAPI_DEVICE_SELECTOR", "ZE_AFFINITY_MASK") if site.probe.environ.get(v)]
    if len(both) == 2:
        evidence = tuple(f"{name}={site.probe.environ[name]}" for name in both)
        message = "two variables choose Intel devices; together they can leave none"
        yield of_cause("xpu_not_available", "warning", message, evidence=evidence)

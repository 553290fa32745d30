"""Do the GPU packages of the environment ask for each other's versions?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuforge.changes.action import RunPip
from gpuforge.diagnose.finding import Finding, of_cause
from gpuforge.diagnose.requirement import parse_requirement, satisfies
from gpuforge.diagnose.site import Site, normalised

SUMMARY = "packages that share a binary interface have versions that fit"

# What a broken requirement of the package means, and what is upgraded together to mend it.
FAMILIES = {
    "torchvision": "torch_extension_abi_mismatch",
    "torchaudio": "torch_extension_abi_mismatch",
    "flash-attn": "torch_extension_abi_mismatch",
    "vllm": "torch_extension_abi_mismatch",
    "xformers": "xformers_mismatch",
    "jax": "jax_plugin_version_mismatch",
    "jaxlib": "jax_plugin_version_mismatch",
    "jax-cuda12-plugin": "jax_plugin_version_mismatch",
    "jax-cuda13-plugin": "jax_plugin_version_mismatch",
}
JAX = ("jax", "jaxlib", "jax-cuda12-plugin", "jax-cuda12-pjrt", "jax-cuda13-plugin",
       "jax-cuda13-pjrt")  # fmt: skip
NUMPY_USERS = ("torch", "numba", "cupy", "tensorflow", "jaxlib", "scipy", "pandas", "scikit-learn",
               "matplotlib", "opencv-python", "onnxruntime", "h5py", "pyarrow")  # fmt: skip


def check(site: Site) -> Iterator[Finding]:
    """Return each requirement that does not hold, then whether all do."""
    found = False
    for package in (*FAMILIES, *NUMPY_USERS):
        if package in site.packages:
            for finding in _broken(site, package):
                found = True
                yield finding
    if not found:
        yield Finding("ok", "the versions fit each other")


def _broken(site: Site, package: str) -> Iterator[Finding]:
    for line in site.metadata(package).splitlines():
        parsed = parse_requirement(line[14:]) if line.startswith("Requires-Dist:") else None
        if parsed is None or not line:
            continue
        needed, conditions = normalised(parsed[0]), parsed[1]
        version = site.version(needed)
        cause = "numpy_abi_mismatch" if needed == "numpy" else FAMILIES.get(package)
        related = needed in ("torch", "numpy", "jax", "jaxlib") or needed.startswith("nvidia-cudnn")
        if version is None or cause is None or not related:
            continue
        if all(satisfies(version, condition) for condition in conditions):
            continue
        evidence = (f"{package} asks for {needed}{','.join(conditions)}; {version} is installed",)
        repair = _repair(site, package, needed, conditions)
        yield of_cause(cause, "error", evidence=evidence, repair=repair)


def _repair(
    site: Site, package: str, needed: str, conditions: tuple[str, ...]
) -> tuple[RunPip, ...]:
    if package in JAX:
        wanted = tuple(name for name in JAX if name in site.packages)
        arguments = ("install", "--upgrade", *wanted)
    elif needed == "numpy":
        arguments = ("install", f"numpy{','.join(conditions)}")
    else:
        arguments = ("install", "--upgrade", package, f"{needed}=={site.version(needed)}")
    return (RunPip(site.python, site.prefix, arguments),)

"""Do environment variables hide devices, put wrong libraries first, leave nvcc a wrong compiler?"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from gpuforge.diagnose.finding import Finding, State, of_cause
from gpuforge.diagnose.site import Site
from gpuforge.facts import known

SUMMARY = "environment variables hide no GPU and no library, and name a compiler that nvcc accepts"

UNSET = ("# gpuforge: the environment brings its own CUDA libraries", "unset LD_LIBRARY_PATH")
# What a cause that the user named asks for; nothing on the machine shows that it is needed.
WANTED = {
    "gpu_memory_fragmentation": ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
    "mps_op_not_implemented": ("PYTORCH_ENABLE_MPS_FALLBACK", "1"),
    "p2p_access_failure": ("NCCL_P2P_DISABLE", "1"),
}
_COUNT = re.compile(r"(?:OMP|MKL|OPENBLAS|NUMEXPR|NUMBA)_(?:NUM|MAX)_THREADS")
PIP_ELSEWHERE = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER")
_SET = re.compile(r"(?ms)^\[(?:global|install)\][^[]*?^(target|prefix|root|user)\s*[=:]\s*(\S+)")
FOLDERS = ("CUDA_HOME", "CUDA_PATH", "CUDNN_PATH", "ROCM_PATH", "ROCM_HOME")
FILES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "PIP_CERT", "PIP_CONSTRAINT")
SYSTEM_LIBRARIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64")


def check(site: Site) -> Iterator[Finding]:
    """Return each variable that stands in the way."""
    looks = (_hiding, _shadowing, _dangling, _redirecting, _contradicting, _compiler, _wanted,
             _outranked, _old_cxx_library, _misset)  # fmt: skip
    found = [finding for look in looks for finding in look(site)]
    yield from found or [Finding("ok", "no environment variable causes a problem")]


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
        yield _by_activation(site, "ld_library_path_shadow", UNSET, "", *folders)


def _holds_cuda(site: Site, folder: str) -> bool:
    names = site.probe.list_dir(folder)
    return isinstance(names, tuple) and any(
        name.startswith(("libcublas", "libcudart.so", "libnvJitLink", "libcudnn")) for name in names
    )


def _wanted(site: Site) -> Iterator[Finding]:
    for cause in filter(WANTED.get, site.asked):
        name, value = WANTED[cause]
        if "+rocm" in (site.version("torch") or ""):
            name = name.replace("PYTORCH_CUDA", "PYTORCH_HIP")
        if set_to := site.probe.environ.get(name):
            state: State = "ok" if value in set_to else "warning"
            yield Finding(state, f"{name} is set to {set_to}; against {cause} it should be {value}")
        else:
            yield _by_activation(site, cause, (f"export {name}={value}",), f"{name} is not set")


def _compiler(site: Site) -> Iterator[Finding]:
    """Find a compiler newer than the toolkit accepts, by the line of its header that stops it."""
    environ, nvcc = site.probe.environ, known(site.probe.find_program("nvcc"))
    beside = str(Path(nvcc).parent.parent) if nvcc else "/usr/local/cuda"
    home = Path(environ.get("CUDA_HOME") or environ.get("CUDA_PATH") or beside)
    header = str(home / "include" / "crt" / "host_config.h")
    newest = re.search(r"__GNUC__ > (\d+)", known(site.probe.read_text(header)) or "")
    compiler = environ.get("CUDAHOSTCXX") or environ.get("CXX") or "g++"
    answer = known(site.probe.run([compiler, "-dumpversion"])) if newest else None
    version = re.match(r"\d+", answer.stdout) if answer else None
    if newest and version and int(version[0]) > int(newest[1]):
        evidence = (f"{compiler} {version[0]}", f"{header}: up to {newest[1]}")
        fitting = range(int(newest[1]), 5, -1)
        older = next((n for n in fitting if known(site.probe.find_program(f"g++-{n}"))), 0)
        lines = (f"export CC=gcc-{older} CXX=g++-{older} CUDAHOSTCXX=g++-{older}",)
        cause = "nvcc_host_compiler_unsupported"
        yield _by_activation(site, cause, lines if older else (), "", *evidence)


def _dangling(site: Site) -> Iterator[Finding]:
    for name in (*FOLDERS, *FILES) if site.live else ():
        value = site.probe.environ.get(name, "")
        if value and "://" not in value and not Path(value).exists():
            what = "file" if name in FILES else "folder"
            cause = "named_file_gone" if name in FILES else "nvcc_not_found_cuda_home"
            steps = (f"Unset {name}, or point it at a {what} that exists.",)
            message = f"{name} names a {what} that does not exist"
            yield Finding("warning", message, cause, (f"{name}={value}",), steps)


def _outranked(site: Site) -> Iterator[Finding]:
    """Find a Python, or a pip, that PATH names before those of the activated environment."""
    environment, folders = site.environment, site.probe.environ.get("PATH", "").split(os.pathsep)
    own = str((environment.python or environment.prefix / "bin" / "python").parent)
    if site.live and environment.named_by and own in folders:
        for folder in folders[: folders.index(own)]:
            found = [name for name in ("python", "pip") if os.access(f"{folder}/{name}", os.X_OK)]
            if found and not os.path.samefile(folder, own):
                message = f"PATH names {folder} before {own}: {' and '.join(found)} are of there"
                yield Finding("warning", message, "another_python_first", (f"{folder}/{found[0]}",),
                              (f"Activate again, or take {folder} out of PATH.",))  # fmt: skip


def _old_cxx_library(site: Site) -> Iterator[Finding]:
    """Find a C++ library on the loader's path that is older than the system's."""
    places = site.probe.environ.get("LD_LIBRARY_PATH", "").split(":")
    for folder in filter(None, places) if site.probe.platform == "linux" else ():
        found = _newest_interface(site, folder)
        if 0 < found < (have := max(_newest_interface(site, place) for place in SYSTEM_LIBRARIES)):
            message = f"LD_LIBRARY_PATH names {folder}, whose libstdc++ is older than the system's"
            evidence = (f"GLIBCXX_3.4.{found}; the system's has GLIBCXX_3.4.{have}",)
            steps = (f"Take {folder} out of LD_LIBRARY_PATH.",)
            yield Finding("warning", message, "libstdcxx_too_old", evidence, steps)


def _newest_interface(site: Site, folder: str) -> int:
    """Return the last part of the newest interface of a folder's C++ library; 0 if it has none."""
    content = known(site.probe.read_bytes(f"{folder}/libstdc++.so.6")) or b""
    return max(map(int, re.findall(rb"GLIBCXX_3\.4\.(\d+)\0", content)), default=0)


def _redirecting(site: Site) -> Iterator[Finding]:
    """Find variables by which pip installs elsewhere than in the environment."""
    if site.live and site.environment.kind == "virtual environment":
        settings = {name: site.probe.environ.get(name, "") for name in PIP_ELSEWHERE}
        for folder in (site.environment.prefix, Path.home() / ".config/pip", Path.home() / ".pip"):
            text = known(site.probe.read_text(f"{folder}/pip.conf")) or ""
            settings |= {f"{m[1]} in {folder}/pip.conf": m[2] for m in _SET.finditer(text)}
        for name, value in settings.items():
            if value and value.lower() not in ("0", "false", "no", "off"):
                message = f"{name} makes pip install elsewhere than in {site.environment.prefix}"
                yield Finding("warning", message, "pip_installs_elsewhere", (f"{name}={value}",),
                              (f"Unset {name} while this environment is active.",))  # fmt: skip


def _misset(site: Site) -> Iterator[Finding]:
    """Find values with which packages cannot be imported; numexpr knows no list of numbers."""
    environ, number = site.probe.environ, r"[\s\d]*" if "numexpr" in site.packages else r"[\s\d,]*"
    wrong = [n for n in environ if _COUNT.fullmatch(n) and not re.fullmatch(number, environ[n])]
    module = environ.get("MPLBACKEND", "").partition("module://")[2].partition(".")[0]
    places = [path for folder in site.environment.folders for path in folder.glob(f"{module}*")]
    wrong += ["MPLBACKEND"] if module and "matplotlib" in site.packages and not places else []
    for name in wrong:
        value, steps = f"{name}={environ[name]}", (f"Unset {name}, or correct it.",)
        yield Finding("warning", f"packages cannot use {value}", "variable_misset", (value,), steps)


def _contradicting(site: Site) -> Iterator[Finding]:
    both = [v for v in ("ONEAPI_DEVICE_SELECTOR", "ZE_AFFINITY_MASK") if site.probe.environ.get(v)]
    if len(both) == 2:
        evidence = tuple(f"{name}={site.probe.environ[name]}" for name in both)
        message = "two variables select Intel devices; together they may leave none"
        yield of_cause("xpu_not_available", "warning", message, evidence=evidence)


def _by_activation(
    site: Site, cause: str, lines: tuple[str, ...], message: str = "", *evidence: str
) -> Finding:
    """Return a cause that `lines` in the activation script repair, unless they are there."""
    from gpuforge.changes.action import AppendLines

    script = _script(site)
    if lines and lines[-1] in (known(site.probe.read_text(str(script))) or "").splitlines():
        steps = (f"source {script}",)
        message = f"{script} sets it already: activate the environment again"
        return Finding("warning", message, "", evidence, steps)
    repair = (AppendLines(script, lines),) if lines and not site.environment.refusal else ()
    return of_cause(cause, "warning", message, evidence=evidence, repair=repair)


def _script(site: Site) -> Path:
    if (site.environment.prefix / "conda-meta").is_dir():
        return site.environment.prefix / "etc" / "conda" / "activate.d" / "gpuforge.sh"
    return site.environment.prefix / "bin" / "activate"

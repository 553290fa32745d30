"""Do environment variables hide devices, put wrong libraries first, or misconfigure packages?"""

from __future__ import annotations

import codecs
import json
import mmap
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpuforge.compat.versions import at_least
from gpuforge.diagnose.finding import Finding, State, of_cause
from gpuforge.diagnose.site import Site
from gpuforge.facts import known

SUMMARY = "no environment variable hides GPUs or libraries or selects a wrong compiler"

UNSET = ("# gpuforge: the environment brings its own CUDA libraries", "unset LD_LIBRARY_PATH")
# Variables that remedy a cause; only checked if the user names the cause, as nothing else shows it.
WANTED = {
    "gpu_memory_fragmentation": ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"),
    "mps_op_not_implemented": ("PYTORCH_ENABLE_MPS_FALLBACK", "1"),
    "p2p_access_failure": ("NCCL_P2P_DISABLE", "1"),
}
MISSET = "variable_misset"
PIP_ELSEWHERE = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER")
_SET = re.compile(r"(?ms)^\[(?:global|install)\][^[]*?^(target|prefix|root|user)\s*[=:]\s*(\S+)")


def check(site: Site) -> Iterator[Finding]:
    """Yield a finding for each variable that causes a problem."""
    looks = (_hiding, _shadowing, _redirecting, _contradicting, _compiler, _wanted, _other_python,
             _invalid_values)  # fmt: skip
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
    """Find CUDA libraries in LD_LIBRARY_PATH that shadow those of the environment."""
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
            yield Finding(state, f"{name} is set to {set_to}; set it to {value} to avoid {cause}")
        else:
            yield _by_activation(site, cause, (f"export {name}={value}",), f"{name} is not set")


def _compiler(site: Site) -> Iterator[Finding]:
    """Find a host compiler that is newer than the limit in the CUDA toolkit's header."""
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


def _other_python(site: Site) -> Iterator[Finding]:
    """Find a Python or pip that precedes those of the activated environment in PATH."""
    environment, folders = site.environment, site.probe.environ.get("PATH", "").split(os.pathsep)
    own = str((environment.python or environment.prefix / "bin" / "python").parent)
    if site.live and environment.named_by and own in folders:
        for folder in folders[: folders.index(own)]:
            found = [name for name in ("python", "pip") if os.access(f"{folder}/{name}", os.X_OK)]
            if found and not os.path.samefile(folder, own):
                message = f"PATH names {folder} before {own}: {' and '.join(found)} come from there"
                yield Finding("warning", message, "another_python_first", (f"{folder}/{found[0]}",),
                              (f"Activate it again, or remove {folder} from PATH.",))  # fmt: skip


def _redirecting(site: Site) -> Iterator[Finding]:
    """Find variables and settings that make pip install outside the environment."""
    if site.live and site.environment.kind == "virtual environment":
        settings = {name: site.probe.environ.get(name, "") for name in PIP_ELSEWHERE}
        for folder in (site.environment.prefix, Path.home() / ".config/pip", Path.home() / ".pip"):
            text = known(site.probe.read_text(f"{folder}/pip.conf")) or ""
            settings |= {f"{m[1]} in {folder}/pip.conf": m[2] for m in _SET.finditer(text)}
        for name, value in settings.items():
            if value and value.lower() not in ("0", "false", "no", "off"):
                message = f"{name} makes pip install outside {site.environment.prefix}"
                yield Finding("warning", message, "pip_installs_elsewhere", (f"{name}={value}",),
                              (f"Unset {name} while this environment is active.",))  # fmt: skip


def _invalid_values(site: Site) -> Iterator[Finding]:
    """Find values that the installed packages cannot use, by the table of variables."""
    told = set[str]()
    for entry in _table() if site.live else ():
        packages = entry.get("packages")
        elsewhere = entry.get("posix") and site.probe.platform == "win32"
        if elsewhere or (packages and not any(name in site.packages for name in packages)):
            continue
        for name in entry["name"]:
            value = site.probe.environ.get(name, "") or _default(entry)
            fault = _fault(site, entry, name, value) if value and name not in told else ""
            package, first = entry.get("since", ("", "0"))
            if fault and at_least(site.version(package) or first, first):
                told.add(name)
                steps = (f"Unset {name}, or correct it.",)
                if name not in site.probe.environ:
                    steps = (f"Set {name} to what is installed, or install what it refers to.",)
                cause = entry.get("cause") or "named_file_gone" if "names" in entry else MISSET
                yield Finding("warning", fault, cause, (f"{name}={value}",), steps)


def _default(entry: dict[str, Any]) -> str:
    configured = "unless" in entry and Path(entry["unless"]).expanduser().exists()
    return "" if configured else entry.get("default", "")


def _table() -> list[dict[str, Any]]:
    text = Path(__file__).with_name("variables.json").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = json.loads(text)["variable"]
    return found


def _fault(site: Site, entry: dict[str, Any], name: str, value: str) -> str:
    """Return the fault of a value by one entry of the table; empty if it has none."""
    named = _misnamed(site, entry.get("names", ""), value)
    module = re.fullmatch(entry.get("module", "(?!)"), value)
    parts, needs = value.split(","), entry.get("needs", {})
    if (site.environment.prefix / "conda-meta").is_dir():
        needs = {}  # conda splits packages differently
    asked = [needs[like] for part in parts for like in needs if re.fullmatch(like, part)]
    lacking = next((some for some in asked if not any(map(site.distribution, some))), None)
    added = map(Path, filter(None, site.probe.environ.get("PYTHONPATH", "").split(os.pathsep)))
    folders = (*site.environment.folders, *added) if module else ()
    places = [folder for folder in folders if any(folder.glob(f"{module[1]}*"))]  # type: ignore[index]
    if (
        not re.fullmatch(entry.get("value", ".*"), value)
        or not _is_codec(entry, value)
        or (module and not places)
    ):
        return f"packages cannot use {name}={value}"
    if unknown := _unknown_flag(site, entry, value):
        return f"{name} sets {unknown}, a flag that {entry['packages'][0]} rejects"
    if lacking:
        return f"{name}={value} needs {' or '.join(lacking[:2])}, which is not installed"
    return f"{name} points to {named}" if named else ""


def _is_codec(entry: dict[str, Any], value: str) -> bool:
    try:
        return "codec" not in entry or bool(codecs.lookup(value.partition(":")[0] or "utf-8"))
    except LookupError:
        return False


def _unknown_flag(site: Site, entry: dict[str, Any], value: str) -> str:
    """Return a flag that does not occur in the library that parses it; empty if there is none."""
    flags = re.findall(entry["flags"], value) if "flags" in entry else []
    one = site.distribution(entry["packages"][0]) if flags else None
    sizes = {size: path for path, size in one.libraries} if one else {}
    if not one or not sizes:
        return ""
    with open(one.folder / sizes[max(sizes)], "rb") as file:
        held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with held:
        return next((flag for flag in flags if held.find(f"{flag}\0".encode()) < 0), "")


def _misnamed(site: Site, what: str, value: str) -> str:
    """Return the fault of the program, file or folder that a value names; empty if none."""
    if not what or "://" in value:
        return ""
    path = Path(value).expanduser()
    if what == "program":
        found = path.exists() or isinstance(site.probe.find_program(value.split()[0]), str)
        return "" if found else "a program that does not exist"
    if what == "file":
        return "" if path.exists() else "a file that does not exist"
    if what == "folder":  # or several of them
        some = any(Path(one).expanduser().exists() for one in value.split(os.pathsep) if one)
        return "" if some else "a folder that does not exist"
    # An existing cache may be shared and read-only for this user.
    if what == "made" and path.is_dir():
        return ""
    there = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    usable = there.is_dir() and os.access(there, os.W_OK) and there.stat().st_mode & 0o222
    return "" if usable else "a folder that cannot be written"


def _contradicting(site: Site) -> Iterator[Finding]:
    both = [v for v in ("ONEAPI_DEVICE_SELECTOR", "ZE_AFFINITY_MASK") if site.probe.environ.get(v)]
    if len(both) == 2:
        evidence = tuple(f"{name}={site.probe.environ[name]}" for name in both)
        message = "two variables select Intel devices; together they may select none"
        yield of_cause("xpu_not_available", "warning", message, evidence=evidence)


def _by_activation(
    site: Site, cause: str, lines: tuple[str, ...], message: str = "", *evidence: str
) -> Finding:
    """Return a finding whose repair appends `lines` to the activation script, if not yet there."""
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

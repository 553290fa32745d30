"""Do environment variables hide devices, put wrong libraries first, or misconfigure packages?"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpuforge import registry
from gpuforge.diagnose.finding import Finding, State, of_cause
from gpuforge.diagnose.site import Site
from gpuforge.diagnose.variable_rules import VariableRules
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
_PASSWORD = re.compile(r"://[^/\s]+@")  # which may have that sign in it, too
_SECRET = re.compile(
    r"(?s)\b(\w*(?:TOKEN|SECRET|PASSWORD|API_KEY|ACCESS_KEY)=)(?:\s*(['\"]).*?\2|\S+)"
)
MARKS = ("pyvenv.cfg", "conda-meta")
PIP_ELSEWHERE = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "UV_SYSTEM_PYTHON")
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
    if site.live and environment.named_by and os.path.isdir(own):
        same = [os.path.isdir(folder) and os.path.samefile(folder, own) for folder in folders]
        named = True in same
        for folder in folders[: same.index(True)] if named else folders:
            found = [name for name in ("python", "pip") if os.access(f"{folder}/{name}", os.X_OK)]
            counts = named or any(map(os.path.exists, (f"{folder}/../{one}" for one in MARKS)))
            found = found or (_of_another(site, folder, own) if named else [])
            if found and counts:
                come = f"{' and '.join(found)} come{'s' * (len(found) == 1)} from there"
                message = f"PATH names {folder} {'before' if named else 'and not'} {own}: {come}"
                yield Finding("warning", message, "another_python_first", (f"{folder}/{found[0]}",),
                              (f"Activate it again, or remove {folder} from PATH.",))  # fmt: skip


def _of_another(site: Site, folder: str, own: str) -> list[str]:
    """Return scripts in a folder that start another Python than those of that name in `own`."""
    found, places = list[str](), (own.encode(), os.path.realpath(own).encode())
    there = known(site.probe.list_dir(folder)) or ()
    for name in sorted({*there}.intersection(os.listdir(own))):
        with suppress(OSError), open(f"{folder}/{name}", "rb") as file:
            head = file.readline(256)
            is_script = head[:2] == b"#!" and b"python" in head and b"/env " not in head
            starts = os.path.dirname(os.path.realpath(head[2:].strip().partition(b" ")[0]))
            same = starts in places or any(place in head for place in places)
            found += [name] * (is_script and not same)
    return found[:3]


def _redirecting(site: Site) -> Iterator[Finding]:
    """Find variables and settings that make pip install outside the environment."""
    if site.live and site.environment.kind == "virtual environment":
        settings = {name: site.probe.environ.get(name, "") for name in PIP_ELSEWHERE}
        for folder in (site.environment.prefix, Path.home() / ".config/pip", Path.home() / ".pip"):
            text = known(site.probe.read_text(f"{folder}/pip.conf")) or ""
            settings |= {f"'{m[1]}' in {folder}/pip.conf": m[2] for m in _SET.finditer(text)}
        for name, value in settings.items():
            if value and value.lower() not in ("0", "false", "no", "off"):
                message = f"{name} lets packages be installed outside {site.environment.prefix}"
                step = f"{'Unset' if name in PIP_ELSEWHERE else 'Delete'} {name}."
                evidence = (f"{name}: {value}",)
                yield Finding("warning", message, "pip_installs_elsewhere", evidence, (step,))


def _invalid_values(site: Site) -> Iterator[Finding]:
    """Find values that the installed packages cannot use, by the table of variables."""
    told = set[str]()
    rules = VariableRules(site) if site.live else None
    there = set(site.probe.environ)
    for entry in variable_table() if rules else ():
        for name in _counting(entry, there):
            value = site.probe.environ.get(name, "") or _default(entry)
            try:
                fault = rules.fault(entry, name, value) if rules and value else ""
            except OSError as error:  # this user may not look at what it names
                message = f"{name} could not be checked: {error.strerror}"
                yield Finding("unknown", message, "", (f"{error.filename}",))
                continue
            if fault and name not in told:
                told.add(name)
                steps = (f"Unset {name}, or correct it.",)
                if name not in site.probe.environ:
                    steps = (f"Set {name} to what is installed, or install what it refers to.",)
                cause = entry.get("cause") or ("named_file_gone" if "names" in entry else MISSET)
                told_value = redacted(f"{name}={value}")
                yield Finding("warning", redacted(fault), cause, (told_value,), steps)


def redacted(text: str) -> str:
    """Return a text without the passwords in its addresses and the values of secret variables."""
    return _SECRET.sub(r"\1...", _PASSWORD.sub("://...@", text))


def _counting(entry: dict[str, Any], there: set[str]) -> Iterable[str]:
    """Return the variables of an entry that are set, or all if there is a value without them."""
    if "first" in entry:
        return [name for name in entry["name"] if name in there][:1]
    names: list[str] = entry["name"]
    return names if "default" in entry else there.intersection(names)


def _default(entry: dict[str, Any]) -> str:
    configured = "unless" in entry and os.path.exists(os.path.expanduser(entry["unless"]))
    return "" if configured else entry.get("default", "")


def variable_table() -> list[dict[str, Any]]:
    """Return the table of what variables must hold."""
    return registry.rows(__file__, "variables", "variable")


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

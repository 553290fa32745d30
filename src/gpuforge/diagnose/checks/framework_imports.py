"""Can every installed package be imported, and each framework in a process of its own?"""

from __future__ import annotations

import json
import signal
from collections.abc import Generator, Iterator

from gpuforge.diagnose.distribution import normalised
from gpuforge.diagnose.finding import Finding, of_cause
from gpuforge.diagnose.site import NOT_RECORDED, Site
from gpuforge.facts import Failed
from gpuforge.probe import Output

SUMMARY = "every package can be imported (tested in separate processes)"
SLOW = True
SECONDS = 600.0

IMPORT_SECONDS = 60.0
MODULES = {"numpy": "numpy", "torch": "torch", "torchvision": "torchvision", "jax": "jax",
           "tensorflow": "tensorflow", "numba": "numba.cuda", "triton": "triton",
           "xformers": "xformers", "bitsandbytes": "bitsandbytes", "mlx": "mlx.core"}  # fmt: skip
# Imports modules one after the other. Prints a JSON array before each one, and for what goes wrong.
_IMPORT_ALL = """
import importlib, json, os, sys, traceback, warnings
report = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
def write(*event):
    print(json.dumps(event), file=report, flush=True)
def warn(message, category, *rest):
    if "version" in str(message) and issubclass(category, UserWarning):
        write(name, "warns", str(message))
warnings.simplefilter("default")
warnings.showwarning = warn
for name in sys.argv[1:]:
    write(name, "starts", "")
    try:
        importlib.import_module(name)
    except BaseException:
        write(name, "fails", traceback.format_exc())
write(name, "ends", "")
"""


def check(site: Site) -> Iterator[Finding]:
    """Yield for each installed framework whether it can be imported, and if not, why."""
    if not site.live or site.environment.fault:
        yield Finding("skipped", site.environment.fault if site.live else NOT_RECORDED.reason)
        return
    wanted = {module: package for package, module in MODULES.items() if package in site.packages}
    if any(name.startswith("cupy") for name in site.packages):
        wanted["cupy"] = "cupy"
    others = [name for name in _modules(site) if name not in wanted]
    failed = yield from _import_all(site, others)
    for module in (*wanted, *failed):
        # -P: a file of that name in the current folder is the finding of another check.
        argv = [str(site.environment.python), "-P", "-W", "default", "-c", f"import {module}"]
        yield _judge(module, site.probe.run(argv, timeout=IMPORT_SECONDS))
    if count := len(others) - len(failed):
        yield Finding("ok", f"{count} other modules can be imported")


def _modules(site: Site) -> list[str]:
    """Return the modules of all packages; of a package with a module of its name, that one only."""
    found = dict[str, None]()
    for one in site.distributions:
        names = [n for n in one.import_names if not n.startswith(("_", "test", "conftest"))]
        found |= dict.fromkeys([n for n in names if normalised(n) == one.name] or names)
    return list(found)


def _import_all(site: Site, modules: list[str]) -> Generator[Finding, None, list[str]]:
    """Import modules in one process; yield warnings of versions, return what must be judged alone.

    A module that ends the process is one of them; a new process then imports those after it.
    """
    failed, waiting = list[str](), modules
    while waiting:
        argv = [str(site.environment.python), "-P", "-c", _IMPORT_ALL, *waiting]
        output = site.probe.run(argv, timeout=SECONDS / 2)
        last = event = ""
        for line in output.stdout.splitlines() if isinstance(output, Output) else ():
            last, event, text = json.loads(line)
            failed += [last] if event == "fails" else []
            if event == "warns":
                yield Finding("warning", f"import {last}: {text}", "companion_version", (last,))
        if event in ("", "ends"):
            break
        if last not in failed:
            failed.append(last)
        waiting = waiting[waiting.index(last) + 1 :]
    return failed


def _judge(module: str, output: object) -> Finding:
    if isinstance(output, Failed):
        return Finding("unknown", f"import {module}: {output.reason}")
    if not isinstance(output, Output):
        return Finding("unknown", f"the import of {module} could not be tested")
    from gpuforge.diagnose.explanation import explain

    last = tuple(output.stderr.strip().splitlines()[-3:])
    if output.status < 0:
        name = signal.Signals(-output.status).name
        cause = explain(f"{output.stderr}\n{name}").cause
        message = f"import {module} crashed with {name}"
        return Finding("crashed", message, cause.cause if cause else "", last)
    cause = explain(output.stderr).cause
    if output.status == 0:
        return Finding("ok", f"{module} can be imported")
    if cause is None:
        return Finding("error", f"{module} cannot be imported", "", last)
    message = f"{module} cannot be imported: {cause.title}"
    return of_cause(cause.cause, "error", message, evidence=last)

"""Can every installed package be imported, and each framework in a process of its own?"""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Generator, Iterator

from gpuforge.diagnose import installed_modules
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
# Setuptools 82 no longer has `pkg_resources`; `msilib` was only on Windows.
REMOVED = frozenset({*installed_modules.REMOVED, "msilib", "pkg_resources"})
_ERROR = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt|NotFound)\b")
_NOT_FOUND = re.compile(r"No module named '?([\w.]+)")
# Imports modules one after the other. Prints a JSON array before each one, and for what goes wrong.
# An import that hangs ends the process.
_IMPORT_ALL = """
import faulthandler, importlib, json, os, sys, traceback, warnings
LATER = (DeprecationWarning, PendingDeprecationWarning, FutureWarning, SyntaxWarning)
report = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
def write(*event):
    print(json.dumps(event), file=report, flush=True)
def warn(message, category, *rest):
    text = str(message)
    if "version" in text and "deprecat" not in text and not issubclass(category, LATER):
        write(name, "warns", text)
warnings.simplefilter("default")
warnings.showwarning = warn
for name in sys.argv[2:]:
    faulthandler.dump_traceback_later(float(sys.argv[1]), exit=True)
    write(name, "starts", "")
    try:
        importlib.import_module(name)
    except BaseException:
        write(name, "fails", traceback.format_exc())
write(name, "ends", "")
"""


def check(site: Site) -> Iterator[Finding]:
    """Yield whether each framework can be imported, and which other modules cannot, and why."""
    if not site.live or site.environment.fault:
        yield Finding("skipped", site.environment.fault if site.live else NOT_RECORDED.reason)
        return
    wanted = {module: package for package, module in MODULES.items() if package in site.packages}
    if any(name.startswith("cupy") for name in site.packages):
        wanted["cupy"] = "cupy"
    others = [name for name in _modules(site) if name not in wanted]
    failed, untested = yield from _import_all(site, others)
    for module in (*wanted, *failed):
        # -P: a file of that name in the current folder is the finding of another check.
        argv = [str(site.environment.python), "-P", "-W", "default", "-c", f"import {module}"]
        yield _judge(site, module, site.probe.run(argv, timeout=IMPORT_SECONDS))
    if untested:
        message = f"{len(untested)} modules were not tested, such as {untested[0]}"
        yield Finding("unknown", f"{message}: the process that imports them did not finish")
    count = len(others) - len(failed) - len(untested)
    if count or not (wanted or others):
        yield Finding("ok", f"{count} other modules can be imported")


def _modules(site: Site) -> list[str]:
    """Return what to import: the module with the name of its package, or all of it, and scripts."""
    found = dict[str, None]()
    for one in site.distributions:
        names = [n for n in one.import_names if not n.startswith(("_", "test", "conftest"))]
        found |= dict.fromkeys([n for n in names if normalised(n) == one.name] or names)
        found |= dict.fromkeys(one.script_modules)
    return list(found)


def _import_all(
    site: Site, modules: list[str]
) -> Generator[Finding, None, tuple[list[str], list[str]]]:
    """Import modules in one process, and yield warnings about versions.

    Returns the modules to test each in a process of its own, and those that were not imported.
    After a module that ends the process or hangs, a new process imports the rest.
    """
    failed, waiting = list[str](), modules
    while waiting:
        argv = [
            str(site.environment.python),
            "-P",
            "-c",
            _IMPORT_ALL,
            str(IMPORT_SECONDS),
            *waiting,
        ]
        output = site.probe.run(argv, timeout=SECONDS / 2)
        last = event = ""
        for line in output.stdout.splitlines() if isinstance(output, Output) else ():
            last, event, text = json.loads(line)
            failed += [last] if event == "fails" else []
            if event == "warns":
                yield Finding("warning", f"import {last}: {text}", "companion_version", (last,))
        if event == "ends":
            return failed, []
        if not last:  # the process did not start, or took too long in all
            return failed, waiting
        if last not in failed:
            failed.append(last)
        waiting = waiting[waiting.index(last) + 1 :]
    return failed, []


def _judge(site: Site, module: str, output: object) -> Finding:
    if isinstance(output, Failed):
        return Finding("unknown", f"import {module}: {output.reason}")
    if not isinstance(output, Output):
        return Finding("unknown", f"the import of {module} could not be tested")
    from gpuforge.diagnose.explanation import explain

    lines = output.stderr.strip().splitlines()
    last = tuple(lines[-3:])
    if output.status < 0:
        name = signal.Signals(-output.status).name
        cause = explain(f"{output.stderr}\n{name}").cause
        message = f"import {module} crashed with {name}"
        return Finding("crashed", message, cause.cause if cause else "", last)
    if output.status == 0:
        return Finding("ok", f"{module} can be imported")
    cause = explain(output.stderr).cause
    if cause is not None:
        message = f"{module} cannot be imported: {cause.title}"
        return of_cause(cause.cause, "error", message, evidence=last)
    if (missing := _optional(site, output.stderr)) and module not in MODULES:
        return Finding("skipped", f"{module} needs {missing}, which is not installed")
    errors = [line for line in lines if _ERROR.match(line)]
    reason = errors[-1] if errors else f"exit status {output.status}"
    return Finding("error", f"{module} cannot be imported: {reason}", "", last)


def _optional(site: Site, text: str) -> str:
    """Return the module that an import did not find, if it may be an optional requirement.

    Whether a package lacks what it requires is another check's finding.
    """
    found = _NOT_FOUND.search(text)
    name = found[1] if found else ""
    installed = {one for package in site.distributions for one in package.import_names}
    known = installed | REMOVED | sys.stdlib_module_names
    return "" if "." in name or name in known else name

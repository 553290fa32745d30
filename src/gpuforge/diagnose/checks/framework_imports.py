"""Can each framework be imported, in a separate process?"""

from __future__ import annotations

import signal
from collections.abc import Iterator

from gpuforge.diagnose.finding import Finding, of_cause
from gpuforge.diagnose.site import NOT_RECORDED, Site
from gpuforge.facts import Failed
from gpuforge.probe import Output

SUMMARY = "each framework can be imported (tested in separate processes)"
SLOW = True
SECONDS = 180.0

IMPORT_SECONDS = 60.0
MODULES = {"numpy": "numpy", "torch": "torch", "torchvision": "torchvision", "jax": "jax",
           "tensorflow": "tensorflow", "numba": "numba.cuda", "triton": "triton",
           "xformers": "xformers", "bitsandbytes": "bitsandbytes", "mlx": "mlx.core"}  # fmt: skip


def check(site: Site) -> Iterator[Finding]:
    """Yield for each installed framework whether it can be imported, and if not, why."""
    if not site.live or site.environment.fault:
        yield Finding("skipped", site.environment.fault if site.live else NOT_RECORDED.reason)
        return
    wanted = {module: package for package, module in MODULES.items() if package in site.packages}
    if any(name.startswith("cupy") for name in site.packages):
        wanted["cupy"] = "cupy"
    for module in wanted:
        # -P: a file of that name in the current folder is the finding of another check.
        argv = [str(site.environment.python), "-P", "-W", "default", "-c", f"import {module}"]
        yield _judge(module, site.probe.run(argv, timeout=IMPORT_SECONDS))
    if not wanted:
        yield Finding("ok", "no framework is installed in this environment")


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

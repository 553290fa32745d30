"""The start-up hook: Python loads it at the start of a program that ``gpuforge run`` starts.

It hides itself from the program (import path, environment variables, and the ``sitecustomize`` that
it shadows), and makes the summary print last: after the program's own exit functions, and only in
the process that was started, not in its children.
"""

import atexit
import importlib
import os
import sys
import time

_STARTED = time.perf_counter()
_PROCESS = os.getpid()
_PACKAGES = __file__.removesuffix(os.path.join("gpuforge", "cli", "startup", "sitecustomize.py"))
_PREPARED = os.environ.pop("_GPUFORGE_PREPARED", "")
_QUIET = os.environ.pop("_GPUFORGE_QUIET", "")
_ACCELERATED = os.environ.pop("_GPUFORGE_ACCELERATED", "")
_SAVE = os.environ.pop("_GPUFORGE_SAVE", "")
_PEAKS = os.environ.pop("_GPUFORGE_PEAKS", "")
_LAZY = os.environ.pop("_GPUFORGE_LAZY", "")


def _hide() -> None:
    here = os.path.dirname(__file__)
    original = os.environ.pop("_GPUFORGE_PYTHONPATH", None)
    os.environ.pop("PYTHONPATH", None)
    if original is not None:
        os.environ["PYTHONPATH"] = original
    if here in sys.path:
        sys.path.remove(here)
    sys.path_importer_cache.pop(here, None)


def _load_shadowed_hook() -> None:
    own = sys.modules.pop("sitecustomize")
    try:
        importlib.import_module("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = own


def _print_summary() -> None:
    if os.getpid() != _PROCESS:
        return
    fault = getattr(sys, "last_value", None)
    if not hasattr(sys.modules.get("gpuforge"), "__path__"):
        sys.modules.pop("gpuforge", None)  # a gpuforge.py next to the program
        sys.path.insert(0, _PACKAGES)
    try:
        from gpuforge.cli import summary_text

        if fault is None or "gpuforge.runtime" in sys.modules:
            summary_text.print_summary(time.perf_counter() - _STARTED, _PREPARED)
        if isinstance(fault, Exception):
            summary_text.print_cause(fault)
    except Exception as error:  # noqa: BLE001 - a failure here must not affect the program
        os.write(2, f"gpuforge: no summary: {error!r}\n".encode())
    from gpuforge.ending import stay_interrupted

    stay_interrupted()


# Do nothing if this module is imported or run under another name.
if __name__ == "sitecustomize":
    if not _QUIET:
        atexit.register(_print_summary)
    _hide()
    _load_shadowed_hook()
    if _SAVE:
        from gpuforge.cli import saving

        saving.begin(_SAVE, peaks=bool(_PEAKS))
    if _LAZY:
        import json

        from gpuforge.runtime.startup import lazy

        lazy.defer(off=json.loads(_LAZY))
    if _ACCELERATED:
        from gpuforge.cli import own_code

        own_code.watch(_ACCELERATED)

"""Loaded by Python's own start-up in a program that ``gpuforge run`` starts.

It takes itself out of the program's sight (search path, environment, the ``sitecustomize`` that it
stands before) and sees to it that the summary is printed last: after the program's own exit
functions, and in the process that was started only, not in its children.
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


def _step_aside() -> None:
    here = os.path.dirname(__file__)
    original = os.environ.pop("_GPUFORGE_PYTHONPATH", None)
    os.environ.pop("PYTHONPATH", None)
    if original is not None:
        os.environ["PYTHONPATH"] = original
    if here in sys.path:
        sys.path.remove(here)
    sys.path_importer_cache.pop(here, None)


def _load_the_one_behind() -> None:
    own = sys.modules.pop("sitecustomize")
    try:
        importlib.import_module("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = own


def _say_what_happened() -> None:
    if os.getpid() != _PROCESS:
        return
    fault = getattr(sys, "last_value", None)
    if not hasattr(sys.modules.get("gpuforge"), "__path__"):
        sys.modules.pop("gpuforge", None)  # a gpuforge.py beside the program
        sys.path.insert(0, _PACKAGES)
    try:
        from gpuforge.cli import summary_text

        if fault is None or "gpuforge.runtime" in sys.modules:
            summary_text.say(time.perf_counter() - _STARTED, _PREPARED)
        if isinstance(fault, Exception):
            summary_text.say_cause(fault)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong here is not the program's fault
        os.write(2, f"gpuforge: no summary: {error!r}\n".encode())
    from gpuforge.ending import stay_interrupted

    stay_interrupted()


# A Python that the program itself starts with this folder still on its path is left alone.
if __name__ == "sitecustomize":
    if not _QUIET:
        atexit.register(_say_what_happened)
    _step_aside()
    _load_the_one_behind()
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

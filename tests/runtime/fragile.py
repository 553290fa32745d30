"""A backend whose square root crashes: what the first value says decides how."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.contract.null import LIBRARY, NullArray, NullBackend

__all__ = ["LIBRARY", "open_devices"]
EXITS, RAISES, EXHAUSTS, SLEEPS = 100, 101, 102, 103
"""First values beside the numbers of signals."""


def root(x: Any) -> Any:
    kind = int(x.flat[0]) if x.size else 0
    if 0 < kind < 32:
        os.kill(os.getpid(), kind)
    if kind == SLEEPS:
        threading.Event().wait()
    if kind == EXITS:
        os._exit(3)
    if kind == RAISES:
        raise RuntimeError("the kernel was not built")
    if kind == EXHAUSTS:
        raise MemoryError("no memory on the device")
    return np.asarray(np.sqrt(x)).view(NullArray)


def open_devices() -> list[Any]:
    device = NullBackend("fragile:cpu")
    device.lowering = replace(
        device.lowering, functions={**device.lowering.functions, "sqrt": root}
    )
    return [device]


def install(folder: Path) -> None:
    """Make a package of it that offers it as a backend, in a folder for `sys.path`."""
    information = folder / "fragile-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: fragile\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(
        "[gpuforge.backends]\nfragile = tests.runtime.fragile\n"
    )

"""What gpuforge itself does on its way, in microseconds: ``gpuforge bench benchmarks/micro.py``.

`.ci/run` compares it with the last release by ``--against``. Nothing here reads or writes what
is kept of other programs.
"""

from __future__ import annotations

import os

os.environ.setdefault("GPUFORGE_HISTORY", "false")

import numpy as np

import gpuforge as gf
from gpuforge import settings, trace
from gpuforge.diagnose import explain
from gpuforge.errors import suggestion
from gpuforge.runtime.function.key import hot_key
from gpuforge.runtime.function.signature import sign
from gpuforge.stored import dumps
from gpuforge.units import format_bytes, format_seconds, parse_bytes

# Settings are looked for in each folder above the working folder, which differs between the sides.
os.chdir(os.sep)

SMALL = np.ones(16)
WIDE = np.ones((256, 256), dtype=np.float32)
ERROR = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 7.79 GiB total)"


@gf.offload
def line(x, scale=2.0):
    return x * scale + 1.0


for _ in range(2_000):  # until its backend is known
    line(SMALL)
    line(SMALL, scale=3.0)
MACHINE = gf.detect()


def bench_known_call():
    line(SMALL)


def bench_known_call_with_keyword():
    line(SMALL, scale=3.0)


def bench_key_of_a_call():
    hot_key((SMALL, 2.0), {"scale": 3.0})


def bench_signature_of_a_call():
    sign((WIDE, 2.0), {"scale": 3.0})


def bench_namespace_of_an_array():
    gf.namespace(SMALL)


def bench_span_off():
    with trace.span("run", backend="numpy"):
        pass


def bench_span_on():
    trace.enable()
    with trace.span("run", backend="numpy"):
        pass
    trace.enable(False)


def bench_detect_from_the_cache():
    gf.detect()


def bench_load_settings():
    settings.load()


def bench_explain_an_error():
    explain(ERROR)


def bench_store_a_value():
    dumps(MACHINE)


def bench_sizes_as_text():
    format_bytes(parse_bytes("1.5 GiB"))
    format_seconds(0.0123)


def bench_nearest_name():
    suggestion("tocrh", ["torch", "jax", "mlx", "cupy", "dpnp", "numpy"])

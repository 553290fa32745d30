"""A device's context and queue are made once; sessions and calls take them without the driver."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# Stands before the OpenCL loader and counts what asks the driver for something that is held.
COUNTER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <string.h>
long counted[4];
static int find(struct dl_phdr_info *info, size_t size, void *found) {
    if (strstr(info->dlpi_name, "libOpenCL")) *(const char **)found = info->dlpi_name;
    return 0;
}
static void *next(const char *name) {
    const char *library = 0;
    dl_iterate_phdr(find, &library);
    return dlsym(dlopen(library, RTLD_NOW | RTLD_NOLOAD), name);
}
typedef void *P;
P clCreateContext(P a, P b, P c, P d, P e, P f) {
    counted[0]++;
    return ((P (*)(P, P, P, P, P, P))next("clCreateContext"))(a, b, c, d, e, f);
}
P clCreateCommandQueue(P a, P b, P c, P d) {
    counted[1]++;
    return ((P (*)(P, P, P, P))next("clCreateCommandQueue"))(a, b, c, d);
}
P clCreateCommandQueueWithProperties(P a, P b, P c, P d) {
    counted[1]++;
    return ((P (*)(P, P, P, P))next("clCreateCommandQueueWithProperties"))(a, b, c, d);
}
P clCreateBuffer(P a, P b, P c, P d, P e) {
    counted[2]++;
    return ((P (*)(P, P, P, P, P))next("clCreateBuffer"))(a, b, c, d, e);
}
P clEnqueueNDRangeKernel(P a, P b, P c, P d, P e, P f, P g, P h, P i) {
    counted[3]++;
    P (*own)(P, P, P, P, P, P, P, P, P) = next("clEnqueueNDRangeKernel");
    return own(a, b, c, d, e, f, g, h, i);
}
"""
OPENCL = """
import ctypes
counted = (ctypes.c_long * 4).in_dll(ctypes.CDLL(None), "counted")
"""
# dpnp's runtime writes each call of a driver to standard output; so are the marks between them.
DPNP = """
class Marks:
    def __iter__(self):
        print("MARK", flush=True)
        return iter((0, 0, 0, 0))
counted = Marks()
"""
PROGRAM = """
import json, sys, threading
import numpy as np
import gpuforge as gf
x = np.ones(100_000, np.float32)
function = gf.offload(lambda x: x * 2 + 1, backend=sys.argv[1], isolate=False)
found = []
for _ in range(3):
    with gf.session(history=False):
        for calls in (1, 20):
            before = list(counted)
            for _ in range(calls):
                assert function(x)[0] == 3
            found.append([after - was for after, was in zip(counted, before)])

def several():
    for _ in range(10):
        assert function(x)[0] == 3

def together():
    before = list(counted)
    threads = [threading.Thread(target=several) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found.append([after - was for after, was in zip(counted, before)])

together()  # the more calls meet, the more memory they need, until as many have met before
together()
print(json.dumps(found))
"""


def run(prefix: str, backend: str, **more: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", prefix + PROGRAM, backend], capture_output=True, text=True,
        timeout=120, env={**os.environ, **more},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_sessions_calls_and_threads_take_a_context_without_the_driver(tmp_path: Path) -> None:
    pytest.importorskip("pyopencl")
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("counting driver calls needs Linux and a C compiler")
    (tmp_path / "counter.c").write_text(COUNTER)
    library = tmp_path / "counter.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", library, tmp_path / "counter.c", "-ldl"], check=True
    )
    first, *others = json.loads(run(OPENCL, "opencl", LD_PRELOAD=str(library)))
    contexts, queues, buffers, kernels = first
    assert contexts >= 1 and queues >= 1 and buffers >= 1 and kernels >= 1, "nothing was counted"
    assert all(kernels >= 1 for *_, kernels in others)
    *others, four_at_a_time, again = others
    assert others and all(one[:3] == [0, 0, 0] for one in others)
    for contexts, queues, buffers, _ in (four_at_a_time, again):
        assert (contexts, queues) == (0, 0), "threads took one of their own"
        assert buffers < 20, "two for each of the 40 calls, if none were kept"


def test_the_same_for_the_driver_below_dpnp() -> None:
    pytest.importorskip("dpnp")
    parts = run(DPNP, "dpnp", SYCL_UR_TRACE="2").split("MARK\n")[1::2]
    names = ("urContextCreate(", "urQueueCreate(", "urEnqueueKernelLaunch")
    first, *others = [[part.count(name) for name in names] for part in parts]
    assert len(others) == 7
    assert min(first) >= 1, "nothing was counted"
    for contexts, queues, kernels in others:
        assert (contexts, queues) == (0, 0)
        assert kernels >= 1

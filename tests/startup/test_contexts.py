"""A device's context and queue are made once; sessions and calls take them without the driver."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyopencl")

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
PROGRAM = """
import ctypes, json
import numpy as np
import gpuforge as gf
counted = (ctypes.c_long * 4).in_dll(ctypes.CDLL(None), "counted")
x = np.ones(100_000, np.float32)
function = gf.offload(lambda x: x * 2 + 1, backend="opencl", isolate=False)
found = []
for _ in range(3):
    with gf.session(history=False):
        for calls in (1, 20):
            before = list(counted)
            for _ in range(calls):
                assert function(x)[0] == 3
            found.append([after - was for after, was in zip(counted, before)])
print(json.dumps(found))
"""


def test_sessions_and_calls_take_a_context_without_the_driver(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("counting driver calls needs Linux and a C compiler")
    (tmp_path / "counter.c").write_text(COUNTER)
    library = tmp_path / "counter.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", library, tmp_path / "counter.c", "-ldl"], check=True
    )
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120,
        env={**os.environ, "LD_PRELOAD": str(library)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, *others = json.loads(done.stdout)
    contexts, queues, buffers, kernels = first
    assert contexts >= 1 and queues >= 1 and buffers >= 1 and kernels >= 1, "nothing was counted"
    for contexts, queues, buffers, kernels in others:
        assert (contexts, queues, buffers) == (0, 0, 0)
        assert kernels >= 1

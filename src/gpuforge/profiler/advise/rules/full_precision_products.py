"""Products of float32 matrices run on a GPU whose tensor cores are left unused.

Bound: 7/8 of their time on the device: tensor cores do at most eight times as much in TF32.
"""

from __future__ import annotations

from gpuforge.profiler.advise.facts import Facts, Found

SOURCE = "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"
PRODUCTS = {"matmul", "dot", "tensordot", "einsum", "inner", "vdot"}
TENSOR_CORES_FROM, TIMES_AS_FAST = 8, 8


def look(facts: Facts) -> Found:
    """Speak once for each function."""
    for calls in facts.placed:
        capability = str(facts.gpu(calls.spans[0]).get("compute_capability") or "0")
        if int(capability.partition(".")[0]) < TENSOR_CORES_FROM:
            continue
        found = [
            place
            for place in calls.work
            if facts.said(place, "dtype") == "float32"
            and PRODUCTS & set(str(facts.said(place, "operation", "")).split())
        ]
        if found:
            yield facts.suggest(
                f"{calls.name} multiplies float32 matrices in full precision",
                [facts.told(found), f"the GPU has compute capability {capability}"],
                facts.time(found) * (1 - 1 / TIMES_AS_FAST),
                "If three decimal digits are enough, use TF32 in a function of PyTorch's own "
                '(torch.set_float32_matmul_precision("high")). Results change: compare them.',
                facts.count(found),
                calls.spans[0],
            )

"""Products of float32 matrices run on a GPU whose tensor cores are left unused.

Bound: 7/8 of the device's time in runs with such a product: tensor cores do at most eight times as
much in TF32. What a device does in a run is known as a whole only.
"""

from __future__ import annotations

from gpuforge.profiler.advise.facts import Calls, Facts, Found

SOURCE = "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"
PRODUCTS = {"matmul", "dot", "tensordot", "einsum", "inner", "vdot"}
TENSOR_CORES_FROM, TIMES_AS_FAST = 8, 8


def look(facts: Facts) -> Found:
    """Return one suggestion for each function."""
    for calls in facts.placed:
        capability = str(facts.gpu(calls.spans[0]).get("compute_capability") or "0")
        major = capability.partition(".")[0]
        if not major.isdecimal() or int(major) < TENSOR_CORES_FROM:
            continue
        runs = _with_products(facts, calls)
        found = [place for place in calls.work if facts.spans.parent[place] in runs]
        if found:
            yield facts.suggest(
                f"{calls.name} multiplies float32 matrices in full precision",
                [
                    facts.told(found, "runs with such products"),
                    f"the GPU has compute capability {capability}",
                ],
                facts.time(found) * (1 - 1 / TIMES_AS_FAST),
                "If three decimal digits are enough, use TF32 in a function of PyTorch's own "
                '(torch.set_float32_matmul_precision("high")). Results change: compare them.',
                facts.count(found),
                calls.spans[0],
            )


def _with_products(facts: Facts, calls: Calls) -> set[int]:
    """Return the runs with a step that multiplies matrices and makes float32."""
    spans, runs = facts.spans, set()
    for name in PRODUCTS & calls.inside.keys():
        for place in calls.inside[name]:
            if str(facts.said(place, "dtype", "")).endswith("float32"):
                runs.add(spans.parent[place])
    return runs

"""A script that runs in an environment's Python and checks that its framework works.

gpuforge may not be installed there: the interpreter gets the source of this file, which imports
only the standard library and, in its checks, the framework and NumPy. It prints one JSON document.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

SIZE, TOLERANCE = 256, 1e-3
MEMORY_BYTES = 64 * 2**20


class Operations(NamedTuple):
    """The operations that every framework must support, on NumPy arrays."""

    version: str
    device: Callable[[], str]
    compute: Callable[[Any, Any], Any]
    convolve: Callable[[Any, Any], Any]
    allocate: Callable[[int], Any]


def main(framework: str, accelerator: str) -> dict[str, Any]:
    """Run all checks of a framework and return their results."""
    distributions = {d.name: d.version for d in importlib.metadata.distributions() if d.name}
    found: list[Operations] = []
    makers = {"pytorch": of_torch, "tensorflow": of_tensorflow, "jax": of_jax}

    def imported() -> str:
        found.append(makers[framework](accelerator))
        return f"{framework} {found[0].version}"

    results = [run("import", imported)]
    if found:
        results += [run(name, check) for name, check in checks(found[0])]
    return {"python": platform.python_version(), "distributions": distributions, "checks": results}


def run(name: str, check: Callable[[], str]) -> dict[str, Any]:
    """Return the result of one check; an exception counts as a failure."""
    started = time.perf_counter()
    try:
        detail, ok = check(), True
    except Exception as error:  # noqa: BLE001 - whatever fails inside is the result
        detail, ok = f"{type(error).__name__}: {error}"[:500], False
    return {"name": name, "ok": ok, "detail": detail, "seconds": time.perf_counter() - started}


def checks(operations: Operations) -> list[tuple[str, Callable[[], str]]]:
    """Return the checks after the import; results are compared with NumPy's in float64."""
    import numpy

    generator = numpy.random.default_rng(0)
    first, second = generator.standard_normal((2, SIZE, SIZE)).astype("float32")
    weights = second[:3, :3].copy()

    def kernel() -> str:
        product = first.astype("float64") @ second.astype("float64")
        want = numpy.tanh(product / SIZE).sum(axis=0)
        return compare(operations.compute(first, second), want)

    def convolution() -> str:
        windows = numpy.lib.stride_tricks.sliding_window_view(first.astype("float64"), (3, 3))
        want = numpy.einsum("ijkl,kl->ij", windows, weights.astype("float64"))
        return compare(operations.convolve(first, weights), want)

    def memory() -> str:
        last = float(operations.allocate(MEMORY_BYTES // 4))
        if last != 1.0:
            raise ArithmeticError(f"memory filled with 1 contains {last}")
        return f"filled and read {MEMORY_BYTES} bytes"

    named = {"kernel": kernel, "convolution": convolution, "memory": memory}
    return [("device", operations.device), *named.items()]


def compare(have: Any, want: Any) -> str:
    """Describe the largest difference; raise if it is larger than rounding explains."""
    import numpy

    difference = float(numpy.max(numpy.abs(numpy.asarray(have) - want)))
    scale = float(numpy.max(numpy.abs(want)))
    text = f"differs from NumPy by {difference:.2g} at values up to {scale:.3g}"
    # Written this way so that NaN, which compares false with everything, raises as well.
    if not difference <= TOLERANCE * scale:
        raise ArithmeticError(text)
    return text


def of_torch(accelerator: str) -> Operations:
    """Return the operations of PyTorch on the accelerator's device."""
    import torch

    device = {"cuda": "cuda", "rocm": "cuda", "xpu": "xpu", "metal": "mps"}.get(accelerator, "cpu")

    def visible() -> str:
        if device == "cpu":
            return "CPU"
        part = torch.backends.mps if device == "mps" else getattr(torch, device)
        if not part.is_available():
            raise RuntimeError(f"torch {torch.__version__} sees no {accelerator} device")
        return "Apple GPU" if device == "mps" else str(part.get_device_name(0))

    def put(array: Any) -> Any:
        return torch.tensor(array, device=device)

    def compute(first: Any, second: Any) -> Any:
        return torch.tanh(put(first) @ put(second) / SIZE).sum(dim=0).cpu().numpy()

    def convolve(image: Any, weights: Any) -> Any:
        found = torch.nn.functional.conv2d(put(image)[None, None], put(weights)[None, None])
        return found[0, 0].cpu().numpy()

    def allocate(count: int) -> Any:
        return torch.ones(count, device=device)[-1].item()

    return Operations(torch.__version__, visible, compute, convolve, allocate)


def of_tensorflow(accelerator: str) -> Operations:
    """Return the operations of TensorFlow on the accelerator's device."""
    import tensorflow

    kind = "CPU" if accelerator == "cpu" else "GPU"
    place = f"/{kind}:0"

    def visible() -> str:
        devices = tensorflow.config.list_physical_devices(kind)
        if not devices:
            raise RuntimeError(f"tensorflow {tensorflow.__version__} sees no {kind}")
        return ", ".join(device.name for device in devices)

    def compute(first: Any, second: Any) -> Any:
        with tensorflow.device(place):
            product = tensorflow.constant(first) @ tensorflow.constant(second)
            return tensorflow.reduce_sum(tensorflow.tanh(product / SIZE), axis=0).numpy()

    def convolve(image: Any, weights: Any) -> Any:
        with tensorflow.device(place):
            found = tensorflow.nn.conv2d(
                image[None, :, :, None], weights[:, :, None, None], strides=1, padding="VALID"
            )
            return found.numpy()[0, :, :, 0]

    def allocate(count: int) -> Any:
        with tensorflow.device(place):
            return tensorflow.ones((count,))[-1].numpy()

    return Operations(tensorflow.__version__, visible, compute, convolve, allocate)


def of_jax(accelerator: str) -> Operations:
    """Return the operations of JAX on its first device."""
    import jax

    def visible() -> str:
        first = jax.devices()[0]
        if accelerator != "cpu" and first.platform == "cpu":
            raise RuntimeError(f"jax {jax.__version__} sees no {accelerator} device")
        return f"{first.platform}: {first.device_kind}"

    def compute(first: Any, second: Any) -> Any:
        return jax.jit(lambda a, b: jax.numpy.tanh(a @ b / SIZE).sum(axis=0))(first, second)

    def convolve(image: Any, weights: Any) -> Any:
        return jax.lax.conv(image[None, None], weights[None, None], (1, 1), "VALID")[0, 0]

    def allocate(count: int) -> Any:
        return jax.numpy.ones(count, dtype="float32")[-1].item()

    return Operations(jax.__version__, visible, compute, convolve, allocate)


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(main(sys.argv[1], sys.argv[2])) + "\n")

"""Predictions by `gf.inference` against plain PyTorch, and `gf.images` against scikit-image.

usage: inference.py [--compile] [--out FILE]

Plain PyTorch predicts all items at once in evaluation mode under `no_grad`, with the threads it
chooses; scikit-image works on one image after the other. Everything is timed in turns. "difference"
is the largest one over the largest magnitude of the plain result. `--compile` tries
`torch.compile`, too.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import gpuforge as gf
from gpuforge.images import Blur, Convolve, Equalize, Grayscale, Pipeline, Rescale, Resize
from gpuforge.inference.tree import difference

TURNS, TURN_SECONDS = 9, 8.0
SOBEL = ((1, 2, 1), (0, 0, 0), (-1, -2, -1))
Calls = dict[str, Callable[[], Any]]


def in_turns(calls: Calls) -> dict[str, dict[str, float]]:
    """Return the median seconds of each call, and its difference from the first one's result."""
    results = {name: call() for name, call in calls.items()}
    plain = next(iter(results.values()))
    times: dict[str, list[float]] = {name: [] for name in calls}
    began = perf_counter()
    while perf_counter() - began < TURN_SECONDS and len(times[next(iter(calls))]) < TURNS:
        for name, call in calls.items():
            start = perf_counter()
            call()
            times[name].append(perf_counter() - start)
    return {
        name: {"seconds": median(times[name]), "difference": difference(plain, results[name])}
        for name in calls
    }


def models() -> dict[str, tuple[Any, Any]]:
    import torch
    from torch import nn

    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    dense = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(),
                          nn.Linear(256, 10))  # fmt: skip
    images = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), 2, enable_nested_tensor=False
    )
    return {
        "dense, 10000 x 64": (dense, rng.random((10_000, 64), dtype=np.float32)),
        "images, 256 x 3 x 32 x 32": (images, rng.random((256, 3, 32, 32), dtype=np.float32)),
        "sequences, 128 x 32 x 64": (encoder, rng.random((128, 32, 64), dtype=np.float32)),
        "one item, 1 x 64": (dense, rng.random((1, 64), dtype=np.float32)),
    }


def predictions(compiling: bool) -> dict[str, Any]:
    import torch

    ways = ["inference_mode", "channels_last", "threads", *["compile"] * compiling]
    found: dict[str, Any] = {}
    for name, (module, x) in models().items():
        module.eval()

        def plainly(module: Any = module, x: Any = x) -> Any:
            with torch.no_grad():
                return module(torch.from_numpy(x)).numpy()

        predict, fast = gf.inference(module), gf.inference(module, optimize=ways)
        found[name] = in_turns({
            "PyTorch": plainly,
            "gf.inference": lambda p=predict, x=x: p(x),  # type: ignore[misc]
            "gf.inference, optimized": lambda p=fast, x=x: p(x),  # type: ignore[misc]
        })  # fmt: skip
        found[name]["gf.inference, optimized"]["used"] = fast.report.used
        found[name]["gf.inference, optimized"]["batch"] = fast.report.batch
    return found


def pipelines() -> dict[str, Any]:
    from skimage import color, exposure, filters, transform

    colour = np.random.default_rng(0).random((32, 240, 320, 3))
    gray = np.random.default_rng(1).random((32, 240, 320))

    def resized(image: Any) -> Any:
        return transform.resize(image, (64, 64), order=1, mode="edge", anti_aliasing=False)

    def stacked(step: Callable[[Any], Any], images: Any) -> Callable[[], Any]:
        return lambda: np.stack([step(image) for image in images])

    cases = {
        "resize": ([Resize(64, 64)], resized, colour),
        "gray": ([Grayscale()], color.rgb2gray, colour),
        "blur": ([Blur(2.0)], lambda i: filters.gaussian(i, 2.0), gray),
        "edges": ([Convolve(SOBEL)], lambda i: 4 * filters.sobel_h(i), gray),
        "equalize": ([Equalize()], exposure.equalize_hist, gray),
        "all": (
            [Grayscale(), Blur(1.0), Resize(64, 64), Rescale()],
            lambda i: exposure.rescale_intensity(
                resized(filters.gaussian(color.rgb2gray(i), 1.0)), out_range=(0.0, 1.0)
            ),
            colour,
        ),
    }
    found: dict[str, Any] = {}
    for name, (steps, like, images) in cases.items():
        pipeline = Pipeline(steps)
        for _ in range(12):  # placement learns
            pipeline(images)
        found[name] = in_turns({
            "skimage, one by one": stacked(like, images),
            "gf.images": lambda p=pipeline, x=images: p(x),  # type: ignore[misc]
        })  # fmt: skip
        counts = pipeline.stats().counts
        found[name]["gf.images"]["calls"] = {b: c.calls for b, c in counts.items()}
    return found


def show(found: dict[str, Any]) -> None:
    for case, rows in found.items():
        base = next(iter(rows.values()))["seconds"]
        for name, row in rows.items():
            print(
                f"{case:28}{name:26}{1e3 * row['seconds']:10.2f} ms"
                f"{base / row['seconds']:8.2f} x   difference {row['difference']:.1e}"
                f"   {row.get('used', '') or row.get('calls', '')}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results" / "inference.json"
    )
    arguments = parser.parse_args()
    found: dict[str, Any] = {"cores": os.cpu_count()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, measure in (
            ("predictions", lambda: predictions(arguments.compile)), ("images", pipelines),
        ):  # fmt: skip
            try:
                found[name] = measure()
            except ImportError as error:
                print(f"{name}: left out, {error}")
                continue
            show(found[name])
    arguments.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Each step gives what scikit-image gives for each image, on whatever library it runs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpuforge as gf
from gpuforge.errors import InvalidSettings, WorkloadError
from gpuforge.images import (
    Blur,
    Convolve,
    Crop,
    Equalize,
    Flip,
    Grayscale,
    Normalize,
    Pad,
    Pipeline,
    Rescale,
    Resize,
    Threshold,
)

pytest.importorskip("skimage", reason="skimage is not installed")
from skimage import color, exposure, filters, transform, util

RNG = np.random.default_rng(0)
GRAY, COLOUR = RNG.random((3, 21, 30)), RNG.random((2, 17, 24, 3))
MEANS, DEVIATIONS = np.array([0.1, 0.2, 0.3]), np.array([1.0, 2.0, 3.0])
SOBEL = ((1, 2, 1), (0, 0, 0), (-1, -2, -1))
BACKENDS = ["numpy", "torch", "jax"]


def resized(height: int, width: int) -> Callable[[Any], Any]:
    return lambda image: transform.resize(
        image, (height, width), order=1, mode="edge", anti_aliasing=False
    )


def blurred(sigma: float) -> Callable[[Any], Any]:
    return lambda image: filters.gaussian(
        image, sigma, channel_axis=-1 if image.ndim == 3 else None
    )


def equalized(image: Any) -> Any:
    with warnings.catch_warnings():  # it warns of colour images
        warnings.simplefilter("ignore")
        return exposure.equalize_hist(image)


STEPS: list[tuple[Any, Callable[[Any], Any], Any]] = [
    (Resize(40, 13), resized(40, 13), GRAY),
    (Resize(9, 9), resized(9, 9), COLOUR),
    (Grayscale(), color.rgb2gray, COLOUR),
    (Normalize(0.4, 0.2), lambda image: (image - 0.4) / 0.2, GRAY),
    (
        Normalize((0.1, 0.2, 0.3), (1.0, 2.0, 3.0)),
        lambda image: (image - MEANS.astype(image.dtype)) / DEVIATIONS.astype(image.dtype),
        COLOUR,
    ),
    (Rescale(), lambda image: exposure.rescale_intensity(image, out_range=(0.0, 1.0)), GRAY),
    (Rescale(-1, 3), lambda image: exposure.rescale_intensity(image, out_range=(-1, 3)), COLOUR),
    (Crop(2, 3, 5, 7), lambda image: util.crop(image, ((2, 14), (3, 20))), GRAY),
    (Pad(4, "reflect"), lambda image: np.pad(image, 4, mode="reflect"), GRAY),
    (Pad(2), lambda image: np.pad(image, ((2, 2), (2, 2), (0, 0))), COLOUR),
    (Flip(), np.fliplr, COLOUR),
    (Flip(vertical=True), np.flipud, GRAY),
    (Blur(1.3), blurred(1.3), GRAY),
    (Blur(0.7), blurred(0.7), COLOUR),
    (Blur(6.0), blurred(6.0), GRAY),
    (Convolve(SOBEL), lambda image: 4 * filters.sobel_h(image), GRAY),
    (Threshold(0.5), lambda image: image > 0.5, GRAY),
    (Equalize(), equalized, GRAY),
    (Equalize(), equalized, COLOUR),
]


def expected(like: Callable[[Any], Any], images: Any) -> Any:
    return np.stack([like(image) for image in images])


def assert_equal(found: Any, wanted: Any) -> None:
    tolerance = 1e-5 if found.dtype == np.float32 else 1e-10
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("step", "like", "images"), STEPS, ids=lambda v: repr(v) if hasattr(v, "__post_init__") else ""
)
def test_a_step_is_as_in_skimage(step: Any, like: Any, images: Any, dtype: str) -> None:
    images = images.astype(dtype)
    before = images.copy()
    found = Pipeline([step])(images)
    assert_equal(found, expected(like, images))
    assert np.array_equal(images, before)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_pipeline_is_its_steps_on_every_library(backend: str) -> None:
    if find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    steps = [Grayscale(), Resize(20, 20), Blur(1.0), Convolve(SOBEL), Rescale(), Flip(),
             Crop(1, 1, 16, 16), Pad(2, "edge"), Normalize(0.5, 0.25)]  # fmt: skip
    with gf.session(history=False), warnings.catch_warnings():
        warnings.simplefilter("always")  # as errors they keep calls as written
        pipeline = Pipeline(steps, backend=backend)
        found = [pipeline(COLOUR) for _ in range(2)]
        # (what takes too long to compile NumPy does, on a busy machine)
        where = set(pipeline.stats().counts)
        assert ("numpy" if backend == "numpy" else f"{backend}:cpu") in where

    def like(image: Any) -> Any:
        image = resized(20, 20)(color.rgb2gray(image))
        image = exposure.rescale_intensity(4 * filters.sobel_h(blurred(1.0)(image)),
                                           out_range=(0.0, 1.0))  # fmt: skip
        image = np.pad(np.fliplr(image)[1:17, 1:17], 2, mode="edge")
        return (image - 0.5) / 0.25

    for one in found:
        np.testing.assert_allclose(one, expected(like, COLOUR), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "bool"])
def test_whole_numbers_become_floats_as_in_skimage(dtype: str) -> None:
    images = (RNG.random((2, 5, 6)) * 300).astype(dtype)
    assert_equal(Pipeline([])(images), util.img_as_float(images))


def test_a_flat_image_is_rescaled_as_in_skimage() -> None:
    flat = np.stack([np.full((3, 4), 7.0), RNG.random((3, 4))])
    like = lambda image: exposure.rescale_intensity(image, out_range=(0.0, 1.0))  # noqa: E731
    assert_equal(Pipeline([Rescale()])(flat), expected(like, flat))


@settings(max_examples=25)
@given(sides=st.tuples(*[st.integers(1, 12)] * 4), sigma=st.floats(0.3, 3.0), colour=st.booleans())
def test_any_size_is_as_in_skimage(
    sides: tuple[int, int, int, int], sigma: float, colour: bool
) -> None:
    height, width, *to = sides
    images = np.random.default_rng(1).random((2, height, width, *[3] * colour))
    assert_equal(Pipeline([Resize(*to)])(images), expected(resized(*to), images))
    assert_equal(Pipeline([Blur(sigma)])(images), expected(blurred(sigma), images))


def test_a_function_of_ones_own_is_a_step() -> None:
    def inverted(images: Any) -> Any:
        return 1.0 - images

    pipeline = Pipeline([Flip(), inverted])
    assert repr(pipeline) == "Pipeline([Flip(vertical=False), inverted])"
    assert np.array_equal(pipeline(GRAY), 1.0 - GRAY[:, :, ::-1])
    assert pipeline.explain(GRAY).function.endswith(repr(pipeline))


@pytest.mark.parametrize(
    ("images", "text"),
    [
        (np.zeros((4, 5)), "shape (4, 5)"),
        ([[1.0]], "'list'"),
        (np.zeros((1, 4, 5), dtype=np.int64), "int64"),
    ],
)
def test_what_is_no_stack_is_refused(images: Any, text: str) -> None:
    with pytest.raises(WorkloadError) as raised:
        Pipeline([Flip()])(images)
    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("step", "images"),
    [
        (Grayscale(), GRAY),
        (Crop(0, 0, 99, 2), GRAY),
        (Normalize((0.0, 1.0), (1.0, 1.0)), COLOUR),
    ],
    ids=repr,
)
def test_what_a_step_cannot_take_is_refused(step: Any, images: Any) -> None:
    with pytest.raises(WorkloadError, match=type(step).__name__):
        Pipeline([step])(images)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Resize(0, 3),
        lambda: Crop(-1, 0, 2, 2),
        lambda: Pad(-1),
        lambda: Pad(1, "wrap"),
        lambda: Blur(0.0),
        lambda: Convolve(((1.0, 2.0),)),
        lambda: Normalize(0.0, 0.0),
        lambda: Rescale(1.0, 1.0),
        lambda: Equalize(0),
        lambda: Pipeline([Flip]),
    ],
)
def test_what_means_nothing_is_refused(wrong: Callable[[], Any]) -> None:
    with pytest.raises(InvalidSettings):
        wrong()

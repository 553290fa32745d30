"""Pipelines: a sequence of steps that runs as one offloaded function."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

import gpuforge as gf
from gpuforge.errors import InvalidSettings, WorkloadError

if TYPE_CHECKING:
    from gpuforge.runtime.execution.explanation import Explanation
    from gpuforge.runtime.record import FunctionRecord

Stack = np.ndarray[Any, Any]
Step = Callable[[Stack], Stack]


class Pipeline:
    """A sequence of steps that processes stacks of images.

    Parameters
    ----------
    steps
        Steps of this package, or NumPy functions that take and return a stack.
    backend, device, numerics
        As for ``gpuforge.offload``.

    Raises
    ------
    InvalidSettings, UnknownName
        If a step is not callable, or an option has an invalid value.
    """

    def __init__(
        self, steps: Iterable[Step], *, backend: str = "", device: str = "", numerics: str = ""
    ) -> None:
        self.steps = tuple(steps)
        for step in self.steps:
            if not callable(step) or isinstance(step, type):
                raise InvalidSettings(
                    f"a pipeline consists of steps, not {step!r}", hint="write for example Flip()"
                )
        chosen = self.steps

        def run(images: Stack) -> Stack:
            for step in chosen:
                images = step(images)
            return images

        run.__qualname__ = repr(self)  # learned timings are kept by name, one for each pipeline
        self._placed = gf.offload(backend=backend, device=device, numerics=numerics)(run)

    def __repr__(self) -> str:
        names = (getattr(step, "__name__", None) or repr(step) for step in self.steps)
        return f"Pipeline([{', '.join(names)}])"

    def __call__(self, images: Stack) -> Stack:
        """Apply the steps to a stack of images.

        Parameters
        ----------
        images
            Shape (images, height, width) or (images, height, width, channels). float32 and float64
            are used as they are; uint8, uint16 and bool are converted to float64 from 0 to 1, as
            by ``skimage.util.img_as_float``.

        Raises
        ------
        WorkloadError
            If `images` is not such a stack, or a step does not accept it.
        """
        return self._placed(_as_float(images))

    def explain(self, images: Stack) -> Explanation:
        """Return where this stack would be processed and why, without processing it."""
        return self._placed.explain(_as_float(images))

    def stats(self) -> FunctionRecord:
        """Return the current session's record of this pipeline's calls."""
        return self._placed.stats()


def _as_float(images: Stack) -> Stack:
    if not isinstance(images, np.ndarray) or images.ndim not in (3, 4):
        found = f"an array of shape {images.shape}" if isinstance(images, np.ndarray) else repr(
            type(images).__name__
        )  # fmt: skip
        raise WorkloadError(
            f"a pipeline got {found}, expected a stack of shape (images, height, width) or"
            " (images, height, width, channels)",
            hint="write image[np.newaxis] for a single image",
        )
    if images.dtype in (np.float32, np.float64):
        return images
    if images.dtype == np.bool_:
        return images.astype(np.float64)
    if images.dtype in (np.uint8, np.uint16):
        return np.multiply(images, 1.0 / np.iinfo(images.dtype).max, dtype=np.float64)
    raise WorkloadError(
        f"a pipeline got images of {images.dtype}, expected float32, float64, uint8, uint16 or bool"
    )

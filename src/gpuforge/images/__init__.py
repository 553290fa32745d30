"""Image pipelines over stacks of images: NumPy code that is placed where it finishes first.

A stack has the shape (images, height, width) or (images, height, width, channels). For each image,
a step gives the result of the scikit-image, NumPy or SciPy function that its docstring names.
"""

from gpuforge.images.intensity import Equalize, Grayscale, Normalize, Rescale, Threshold
from gpuforge.images.pipeline import Pipeline
from gpuforge.images.shape import Crop, Flip, Pad, Resize
from gpuforge.images.smoothing import Blur, Convolve

__all__ = [
    "Blur", "Convolve", "Crop", "Equalize", "Flip", "Grayscale", "Normalize", "Pad", "Pipeline",
    "Rescale", "Resize", "Threshold",
]  # fmt: skip

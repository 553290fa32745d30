"""Image pipelines over stacks of images: NumPy code that is placed where it finishes first.

A stack is an array of images of equal shape: (images, height, width) or (images, height, width,
channels). Each step gives the same result for each image as the function of scikit-image, NumPy or
SciPy that its docstring names.
"""

from gpuforge.images.intensity import Equalize, Grayscale, Normalize, Rescale, Threshold
from gpuforge.images.pipeline import Pipeline
from gpuforge.images.shape import Crop, Flip, Pad, Resize
from gpuforge.images.smoothing import Blur, Convolve

__all__ = [
    "Blur",
    "Convolve",
    "Crop",
    "Equalize",
    "Flip",
    "Grayscale",
    "Normalize",
    "Pad",
    "Pipeline",
    "Rescale",
    "Resize",
    "Threshold",
]

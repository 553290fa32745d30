"""Sharpen blurred, noisy photographs by Richardson-Lucy deconvolution.

scikit-image's photographs are blurred as by a lens out of focus, given the noise of counted light,
and sharpened again: each step compares the blurred estimate with what was seen and corrects the
estimate by the ratio. Convolutions are products of Fourier transforms.

Prints how far each photograph is from the original before and after, as peak signal-to-noise ratio
(PSNR, in decibels; higher is nearer). Needs scikit-image.
"""

import numpy as np
from skimage import color, data
from skimage.util import img_as_float64

import gpuforge as gf

PHOTOGRAPHS = ("camera", "coins", "page", "hubble_deep_field")
RADIUS = 4
STEPS = 30
PHOTONS_AT_WHITE = 2000


def lens(shape):
    """Return the transform of a disc of `RADIUS` pixels, the picture of one point."""
    y, x = (np.minimum(i, n - i) for i, n in zip(np.indices(shape), shape, strict=True))
    disc = (x**2 + y**2 <= RADIUS**2).astype(np.float64)
    return np.fft.rfftn(disc / disc.sum())


@gf.offload
def blur(image, transfer):
    """Return `image` convolved with the point picture whose transform is `transfer`."""
    xp = gf.namespace(image)
    return xp.fft.irfftn(xp.fft.rfftn(image) * transfer, s=image.shape, axes=(0, 1))


@gf.offload
def sharpen(estimate, seen, transfer):
    """Return the estimate after one step of Richardson-Lucy towards what was `seen`."""
    xp = gf.namespace(estimate)
    blurred = xp.fft.irfftn(xp.fft.rfftn(estimate) * transfer, s=estimate.shape, axes=(0, 1))
    ratio = seen / xp.clip(blurred, 1e-6, 1e6)
    correction = xp.fft.irfftn(
        xp.fft.rfftn(ratio) * xp.conj(transfer), s=estimate.shape, axes=(0, 1)
    )
    return estimate * xp.clip(correction, 0.0, 10.0)


@gf.offload
def psnr(image, truth):
    """Return the peak signal-to-noise ratio of `image` in decibels."""
    xp = gf.namespace(image)
    error = xp.mean((xp.clip(image, 0.0, 1.0) - truth) ** 2)
    return -10 * xp.log10(error)


def main():
    """Sharpen every photograph; fail if one of them did not come nearer to the original."""
    rng = np.random.default_rng(0)
    for name in PHOTOGRAPHS:
        photograph = img_as_float64(getattr(data, name)())
        truth = photograph if photograph.ndim == 2 else color.rgb2gray(photograph)
        transfer = lens(truth.shape)
        clean = np.clip(blur(truth, transfer), 0.0, 1.0)
        seen = rng.poisson(clean * PHOTONS_AT_WHITE) / PHOTONS_AT_WHITE
        estimate = np.full_like(truth, 0.5)
        for _ in range(STEPS):
            estimate = sharpen(estimate, seen, transfer)
        before, after = float(psnr(seen, truth)), float(psnr(estimate, truth))
        size = "×".join(map(str, truth.shape))
        print(f"{name:17} {size:8} {before:.1f} dB blurred, {after:.1f} dB sharpened")
        if not after > before + 1:
            raise SystemExit(f"{name} gained less than 1 dB: something went wrong")


if __name__ == "__main__":
    main()

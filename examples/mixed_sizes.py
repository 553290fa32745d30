"""Tell brick from grass from gravel: thousands of tiny calls and some large ones in one program.

scikit-image's three photographs of textures are cut into patches. Each patch by itself is freed
of its lighting and described by a handful of numbers: tiny calls, which no device makes faster.
Many patches at once are transformed and compared with all others: large calls, which gain most
elsewhere. A program like this is why placement must be decided call by call.

Prints how many patches of the right half of each photograph are recognised by those of its left
half. Needs scikit-image.
"""

import numpy as np
from skimage import data

import gpuforge as gf

TEXTURES = ("brick", "grass", "gravel")
PATCH = 32
STRIDE = 8
BATCHES = 12


def cut(image):
    """Return the patches of `image`, (count, PATCH, PATCH) float32."""
    windows = np.lib.stride_tricks.sliding_window_view(image, (PATCH, PATCH))
    return windows[::STRIDE, ::STRIDE].reshape(-1, PATCH, PATCH).astype(np.float32)


@gf.offload
def even_out(patch):
    """Return one patch freed of its brightness and contrast."""
    xp = gf.namespace(patch)
    patch = patch - xp.mean(patch)
    return patch / (xp.std(patch) + 1.0)


@gf.offload
def edges(patch):
    """Return how strong the edges of one patch are, down, across and along both diagonals."""
    xp = gf.namespace(patch)
    down, across = patch[1:, :] - patch[:-1, :], patch[:, 1:] - patch[:, :-1]
    falling, rising = patch[1:, 1:] - patch[:-1, :-1], patch[1:, :-1] - patch[:-1, 1:]
    return xp.stack([xp.mean(xp.abs(d)) for d in (down, across, falling, rising)])


@gf.offload
def power_spectra(patches):
    """Return the logarithm of the power at each frequency, one row for each patch."""
    xp = gf.namespace(patches)
    power = xp.abs(xp.fft.rfftn(patches, axes=(1, 2))) ** 2
    return xp.reshape(xp.log1p(power), (patches.shape[0], -1))


@gf.offload
def whiten(x, count):
    """Return the rows of `x` along its `count` main axes, scaled to the same variance."""
    xp = gf.namespace(x)
    x = x - xp.mean(x, axis=0)
    u, _, _ = xp.linalg.svd(x, full_matrices=False)
    return u[:, :count] * xp.sqrt(xp.asarray(x.shape[0] - 1, dtype=x.dtype))


@gf.offload
def nearest(x, known):
    """Return for each row of `x` the index of the most similar row of `known`."""
    xp = gf.namespace(x)
    distances = xp.sum(known * known, axis=1) - 2 * (x @ xp.permute_dims(known, (1, 0)))
    return xp.argmin(distances, axis=1)


def main():
    """Recognise the right halves; fail if too many patches are mistaken."""
    halves = [[cut(part) for part in np.split(getattr(data, n)(), 2, axis=1)] for n in TEXTURES]
    counts = [len(half) for pair in halves for half in pair]
    patches = np.stack([even_out(patch) for pair in halves for half in pair for patch in half])
    described = np.stack([edges(patch) for patch in patches])
    batches = np.array_split(patches, BATCHES)
    spectra = np.concatenate([power_spectra(batch) for batch in batches])
    features = np.concatenate([whiten(spectra, 24), whiten(described, 4)], axis=1)
    label = np.repeat(np.repeat(np.arange(3), 2), counts)
    left = np.repeat(np.arange(6) % 2 == 0, counts)
    asked = np.array_split(features[~left], BATCHES)
    found = label[left][np.concatenate([nearest(x, features[left]) for x in asked])]
    share = float(np.mean(found == label[~left]))
    print(f"{len(patches)} patches, {2 * len(patches)} tiny calls, {2 * BATCHES + 2} large ones")
    print(f"recognised: {share:.1%} of {len(found)}")
    if not share > 0.9:
        raise SystemExit("fewer than 90 % recognised: something went wrong")


if __name__ == "__main__":
    main()

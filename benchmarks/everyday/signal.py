"""Bodies over signals: samples taken at equal steps."""

from __future__ import annotations

import numpy as np

import gpuforge as gf
from everyday.body import (
    body,
    constant,
    empty,
    flat,
    flat32,
    huge,
    infinity,
    nan,
    zero,
)


def low_pass(x, share):
    spectrum = np.fft.rfft(x)
    spectrum[int(len(spectrum) * share) :] = 0
    return np.fft.irfft(spectrum, n=len(x))


def low_pass_xp(x, share):
    xp = gf.namespace(x)
    spectrum = xp.fft.rfft(x)
    kept = xp.arange(spectrum.shape[0]) < int(spectrum.shape[0] * share)
    return xp.fft.irfft(xp.where(kept, spectrum, xp.zeros_like(spectrum)), n=x.shape[0])


def spectrogram(x):
    width, hop = 128, 64
    starts = np.arange(0, len(x) - width + 1, hop)
    frames = x[starts[:, None] + np.arange(width)]
    spectrum = np.fft.rfft(frames * np.hanning(width), axis=1)
    return 10 * np.log10(np.abs(spectrum) ** 2 + 1e-12)


def spectrogram_xp(x):
    xp = gf.namespace(x)
    width, hop = 128, 64
    n = (x.shape[0] // hop - 1) * hop
    first = xp.reshape(x[:n], (-1, hop))
    second = xp.reshape(x[hop : n + hop], (-1, hop))
    steps = xp.linspace(0.0, 2 * np.pi, width, dtype=x.dtype)
    frames = xp.concat([first, second], axis=1) * (0.5 - 0.5 * xp.cos(steps))
    return 10 * xp.log10(xp.abs(xp.fft.rfft(frames, axis=1)) ** 2 + 1e-12)


def exponential_smoothing(x, alpha):
    out = np.empty_like(x)
    block, state, decay = 256, x[0], 1 - alpha
    powers = decay ** np.arange(1, block + 1)
    for i in range(0, len(x), block):
        part = x[i : i + block]
        p = powers[: len(part)]
        out[i : i + block] = p * (state + alpha * np.cumsum(part / p))
        state = out[min(i + block, len(x)) - 1]
    return out


def exponential_smoothing_xp(x, alpha):
    xp = gf.namespace(x)
    width = 64
    weights = alpha * (1 - alpha) ** xp.arange(width, dtype=x.dtype)
    total = xp.zeros_like(x[width - 1 :])
    for i in range(width):
        total = total + weights[i] * x[width - 1 - i : x.shape[0] - i]
    return total


def autocorrelation(x):
    centred = x - x.mean()
    spectrum = np.fft.fft(centred, 2 * len(x))
    lags = np.fft.ifft(spectrum * spectrum.conj()).real[: len(x)]
    return lags / lags[0]


def autocorrelation_xp(x):
    xp = gf.namespace(x)
    centred = x - xp.mean(x)
    spectrum = xp.fft.rfft(centred, n=2 * x.shape[0])
    lags = xp.fft.irfft(xp.abs(spectrum) ** 2, n=2 * x.shape[0])[: x.shape[0]]
    return lags / lags[0]


def zero_crossings(x):
    return np.nonzero(np.diff(np.signbit(x)))[0]


def zero_crossings_xp(x):
    xp = gf.namespace(x)
    below = x < 0
    return xp.count_nonzero(below[1:] != below[:-1])


def convolve(x, kernel):
    return np.convolve(x, kernel, mode="same")


def convolve_xp(x, kernel):
    xp = gf.namespace(x)
    n = x.shape[0] + kernel.shape[0] - 1
    full = xp.fft.irfft(xp.fft.rfft(x, n=n) * xp.fft.rfft(kernel, n=n), n=n)
    start = (kernel.shape[0] - 1) // 2
    return full[start : start + x.shape[0]]


def envelope(x):
    n = len(x)
    gain = np.zeros(n)
    gain[0] = 1
    gain[1 : (n + 1) // 2] = 2
    if n % 2 == 0:
        gain[n // 2] = 1
    return np.abs(np.fft.ifft(np.fft.fft(x) * gain))


def envelope_xp(x):
    xp = gf.namespace(x)
    frequency = xp.fft.fftfreq(x.shape[0])
    return xp.abs(xp.fft.ifft(xp.fft.fft(x) * (1.0 + xp.sign(frequency))))


def resample(x, n):
    return np.interp(np.linspace(0, len(x) - 1, n), np.arange(len(x)), x)


def resample_xp(x, n):
    xp = gf.namespace(x)
    place = xp.linspace(0, x.shape[0] - 1, n, dtype=x.dtype)
    left = xp.clip(xp.astype(xp.floor(place), xp.int64), 0, x.shape[0] - 2)
    share = place - xp.astype(left, x.dtype)
    return xp.take(x, left) * (1 - share) + xp.take(x, left + 1) * share


def frame_loudness(x):
    frames = x[: len(x) // 50 * 50].reshape(-1, 50)
    rms = np.sqrt(np.mean(frames**2, axis=1))
    return 20 * np.log10(np.maximum(rms, 1e-10))


def frame_loudness_xp(x):
    xp = gf.namespace(x)
    frames = xp.reshape(x[: x.shape[0] // 50 * 50], (-1, 50))
    rms = xp.sqrt(xp.mean(frames**2, axis=1))
    return 20 * xp.log10(xp.clip(rms, 1e-10, None))


def detrend(x):
    t = np.arange(x.size)
    slope, offset = np.polyfit(t, x, 1)
    return x - (slope * t + offset)


def detrend_xp(x):
    xp = gf.namespace(x)
    t = xp.arange(x.shape[0], dtype=x.dtype) - (x.shape[0] - 1) / 2
    slope = xp.sum(t * x) / xp.sum(t * t)
    return x - xp.mean(x) - slope * t


def with_share(size, rng):
    return (*flat(size, rng), 0.1)


def with_alpha(size, rng):
    return (*flat(size, rng), 0.05)


def with_kernel(size, rng):
    return (*flat(size, rng), np.hanning(31) / 15)


def upsampled(size, rng):
    return (*flat(max(size // 3, 4), rng), size)


BODIES = (
    body(low_pass, low_pass_xp, with_share, nan, infinity, empty),
    body(spectrogram, spectrogram_xp, flat, nan, infinity, zero),
    body(exponential_smoothing, exponential_smoothing_xp, with_alpha, nan, infinity, empty),
    body(autocorrelation, autocorrelation_xp, flat, nan, infinity, zero, huge),
    body(zero_crossings, zero_crossings_xp, flat, nan, infinity, zero, empty),
    body(convolve, convolve_xp, with_kernel, nan, infinity, empty),
    body(envelope, envelope_xp, flat, nan, infinity, empty),
    body(resample, resample_xp, upsampled, nan, infinity, empty),
    body(frame_loudness, frame_loudness_xp, flat32, nan, infinity, zero, huge, empty),
    body(detrend, detrend_xp, flat, nan, infinity, constant, empty),
)

"""PyTorch modules, run as they are or in ways that may be faster. The module itself is not changed.

Ways that change parameters (another device, half precision, channels last) work on a copy. Training
mode and the number of threads are restored after each batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from threading import RLock
from typing import Any

import numpy as np
import torch

import gpuforge.inference.tree as tree
from gpuforge.errors import BackendUnavailable
from gpuforge.inference.predictor import Run, Way

_state = RLock()
"""Held during every batch: batches may change a module's mode and the number of threads, which all
threads of the process share."""


class TorchModel:
    """A module on a device.

    Attributes
    ----------
    fixed_batch : None, because a module takes batches of any size
    """

    fixed_batch: int | None = None

    def __init__(self, module: torch.nn.Module, device: str) -> None:
        self.given = module
        self.module = _on(module, device)
        tensors = [*self.module.parameters(), *self.module.buffers()]
        self.device = torch.device(device) if device else next(
            (one.device for one in tensors), torch.device("cpu")
        )  # fmt: skip
        self.name = f"PyTorch {type(module).__name__} on {self.device}"
        floats = [one.dtype for one in tensors if one.is_floating_point()]
        self.dtype = floats[0] if floats else torch.float32
        self._images = any(one.ndim == 4 for one in self.module.parameters())

    def state(self) -> tuple[Any, ...]:
        """Return a value that changes whenever a parameter or buffer of the module changes."""
        tensors = (*self.given.parameters(), *self.given.buffers())
        return tuple(
            (id(one), one.data_ptr(), 0 if one.is_inference() else one._version) for one in tensors
        )

    def ways(self, relaxed: bool) -> list[Way]:
        """Return the ways that may make it faster, the cheapest to try first."""
        most = torch.get_num_threads()
        counts = sorted({1, most // 2} - {0, most}, reverse=True)
        found: list[Way] = [{"inference_mode": True}]
        if self._images:
            found.append({"channels_last": True})
        if relaxed and self.dtype is torch.float32:
            found.append({"half": "bfloat16" if self.device.type == "cpu" else "float16"})
        if self.device.type == "cpu":
            found += [{"threads": count} for count in counts]
        return [*found, {"compile": True}]

    def build(self, way: Way) -> Run:
        """Return a function that runs one batch in a combination of `ways`; ``{}`` is plain."""
        half = getattr(torch, way["half"]) if "half" in way else None
        module: Any = self.module
        if half or "channels_last" in way:
            module = _copied(module)
            layout = torch.channels_last if "channels_last" in way else torch.preserve_format
            module = module.to(dtype=half, memory_format=layout)
        called = torch.compile(module) if "compile" in way else module
        mode = torch.inference_mode if "inference_mode" in way else torch.no_grad

        def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            given = tree.mapped((args, kwargs), lambda leaf: self._put(leaf, way, half))
            with _state, _threads(way.get("threads", 0)), _evaluating(module), mode():
                result = called(*given[0], **given[1])
                return tree.mapped(result, lambda leaf: self._get(leaf, half))

        return run

    def _put(self, leaf: Any, way: Way, half: torch.dtype | None) -> Any:
        if not isinstance(leaf, np.ndarray):
            return leaf
        whole = leaf if leaf.flags.writeable and min(leaf.strides, default=0) >= 0 else leaf.copy()
        tensor = torch.from_numpy(whole).to(self.device)
        if half and tensor.is_floating_point():
            tensor = tensor.to(half)
        if "channels_last" in way and tensor.ndim == 4:
            tensor = tensor.contiguous(memory_format=torch.channels_last)
        return tensor

    def _get(self, leaf: Any, half: torch.dtype | None) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        tensor = leaf.detach()
        if half and tensor.is_floating_point():
            tensor = tensor.to(self.dtype)
        elif tensor.dtype is torch.bfloat16:  # NumPy has no bfloat16
            tensor = tensor.float()
        host: np.ndarray[Any, Any] = tensor.cpu().numpy()
        return host.copy() if self.device.type == "cpu" else host

    def release(self) -> None:
        """Release the memory that PyTorch caches."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


def _on(module: torch.nn.Module, device: str) -> torch.nn.Module:
    if not device:
        return module
    try:
        place = torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise BackendUnavailable(
            f"PyTorch cannot use device {device!r}: {error}", hint="remove device="
        ) from error
    if all(one.device == place for one in (*module.parameters(), *module.buffers())):
        return module
    return _copied(module).to(place)


def _copied(module: torch.nn.Module) -> torch.nn.Module:
    copy = deepcopy(module)
    for parameter in copy.parameters():
        parameter.grad = None
        parameter.requires_grad_(False)
    return copy


@contextmanager
def _evaluating(module: torch.nn.Module) -> Iterator[None]:
    """Run a module in evaluation mode, and restore the mode of each submodule afterwards."""
    training = [part for part in module.modules() if part.training]
    try:
        for part in training:
            part.training = False
        yield
    finally:
        for part in training:
            part.training = True


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Let PyTorch use `count` threads; 0 leaves the number unchanged."""
    before = torch.get_num_threads()
    if count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        if count:
            torch.set_num_threads(before)

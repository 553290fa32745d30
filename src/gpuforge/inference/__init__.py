"""Batched predictions with a PyTorch module or an ONNX file: NumPy in, NumPy out.

The package itself is callable: ``gpuforge.inference(model)`` returns an `Inference`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gpuforge.errors import InvalidSettings, UnknownName, WorkloadError
from gpuforge.inference.predictor import WAYS, Inference, Model
from gpuforge.inference.report import Report, Trial
from gpuforge.installation import loaded

__all__ = ["Inference", "Report", "Trial", "inference"]


def predictor_of(
    model: Any,
    /,
    *,
    optimize: bool | Sequence[str] = False,
    batch: int | str = "auto",
    device: str = "",
    numerics: str = "strict",
) -> Inference:
    """Return a predictor for a model; its ``predict(x)`` takes and returns NumPy arrays.

    Parameters
    ----------
    model
        A ``torch.nn.Module``, or the path of an ONNX file, which runs in ONNX Runtime.
    optimize
        Whether to try faster ways to run the model at the first prediction for inputs of each shape
        and dtype: ``"inference_mode"``, ``"channels_last"``, ``"half"``, ``"threads"``,
        ``"compile"``; for ONNX files ``"threads"`` and ``"parallel"``. A list of these names
        restricts the trials to them. A way is used only if its results equal the plain ones and it
        is measurably faster; ``report`` lists all trials. They take seconds, ``"compile"`` up to a
        minute.
    batch
        Number of items (along the first axis of all inputs) in a batch. ``"auto"``: up to 4096
        items or 32 MiB. The size is halved whenever memory runs out.
    device
        Where a PyTorch module runs (``"cuda"``), as a copy if it is on another device; or which
        execution provider ONNX Runtime uses (``"cpu"``, ``"cuda"``). By default the module's
        current device; for ONNX the CPU.
    numerics
        ``"relaxed"`` lets `optimize` try half precision as well, and accepts differences of 2 % of
        the largest result. ``"strict"`` accepts 1e-4 (1e-9 for float64).

    Raises
    ------
    WorkloadError
        If `model` is neither a module nor a path, or the file cannot be read.
    InvalidSettings, UnknownName
        If an option has an invalid value.
    BackendUnavailable
        If ONNX Runtime is not installed, or the device is not available.
    """
    if numerics not in ("strict", "relaxed"):
        raise InvalidSettings(f"numerics={numerics!r} is not 'strict' or 'relaxed'")
    whole = isinstance(batch, int) and not isinstance(batch, bool) and batch > 0
    if not (whole or batch == "auto"):
        raise InvalidSettings(f"batch={batch!r} is neither 'auto' nor a positive number of items")
    size = batch if isinstance(batch, int) else None
    return Inference(_open_model(model, device), _way_names(optimize), size, numerics == "relaxed")


def _way_names(optimize: bool | Sequence[str]) -> frozenset[str]:
    """Return the names of the ways to try."""
    if isinstance(optimize, bool):
        return WAYS if optimize else frozenset()
    names = [optimize] if isinstance(optimize, str) else optimize
    for name in names:
        if name not in WAYS:
            raise UnknownName.among("way", name, WAYS)
    return frozenset(names)


def _open_model(model: Any, device: str) -> Model:
    if isinstance(model, str | os.PathLike):
        from gpuforge.inference.onnx import OnnxModel

        return OnnxModel(os.fspath(model), device)
    torch = loaded("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        from gpuforge.inference.torch import TorchModel

        return TorchModel(model, device)
    raise WorkloadError(
        f"inference got {type(model).__module__}.{type(model).__qualname__}, expected a"
        " torch.nn.Module or the path of an ONNX file"
    )


if TYPE_CHECKING:
    inference = predictor_of
else:
    inference = sys.modules[__name__]


class _Package(ModuleType):
    """The type of the package's module object, which makes it callable."""

    def __call__(self, model: Any, /, **options: Any) -> Inference:
        return predictor_of(model, **options)


_Package.__call__.__doc__ = predictor_of.__doc__
sys.modules[__name__].__class__ = _Package

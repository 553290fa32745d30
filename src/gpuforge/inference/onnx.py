"""Models in ONNX files, run by ONNX Runtime."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from gpuforge.errors import BackendUnavailable, WorkloadError
from gpuforge.inference.predictor import Run, Way
from gpuforge.installation import install_command

_PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "rocm": "ROCMExecutionProvider",
    "mps": "CoreMLExecutionProvider",
}


class OnnxModel:
    """A model of an ONNX file.

    Attributes
    ----------
    fixed_batch : the batch size if the file fixes it; None for any size
    """

    def __init__(self, path: str, device: str) -> None:
        self._path, self._provider = path, _PROVIDERS.get(device or "cpu", "")
        if not Path(path).is_file():
            raise WorkloadError(f"no file {path!r}: expected an ONNX file")
        try:
            import onnxruntime
        except ImportError as error:
            raise BackendUnavailable(
                f"ONNX Runtime is not installed, which runs {path!r}",
                hint=f"run '{install_command('onnx', 'onnxruntime')}'",
            ) from error
        self._library = onnxruntime
        there = onnxruntime.get_available_providers()
        if self._provider not in there:
            raise BackendUnavailable(
                f"ONNX Runtime has no provider for device {device!r}; it has {', '.join(there)}",
                hint="remove device=, or install a build of ONNX Runtime for it",
            )
        self.name = f"ONNX {Path(path).name} on {device or 'cpu'}"
        self._plain = self._session({})
        self._inputs = [one.name for one in self._plain.get_inputs()]
        self._outputs = [one.name for one in self._plain.get_outputs()]
        shapes = [one.shape for one in self._plain.get_inputs()]
        firsts = {shape[0] for shape in shapes if shape and isinstance(shape[0], int)}
        self.fixed_batch = firsts.pop() if len(firsts) == 1 and all(shapes) else None

    def state(self) -> tuple[Any, ...]:
        """Return an empty tuple: a loaded file does not change."""
        return ()

    def ways(self, relaxed: bool) -> list[Way]:
        """Return the ways that may make it faster; none of them changes the precision."""
        cores = os.cpu_count() or 1
        counts = sorted({1, cores // 2, cores} - {0}, reverse=True)
        return [*({"threads": count} for count in counts), {"parallel": True}]

    def build(self, way: Way) -> Run:
        """Return a function that runs one batch in a combination of `ways`; ``{}`` is plain."""
        session = self._session(way) if way else self._plain

        def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            results = session.run(None, self._feeds(args, kwargs))
            if len(results) == 1:
                return results[0]
            return dict(zip(self._outputs, results, strict=True))

        return run

    def _session(self, way: Way) -> Any:
        options = self._library.SessionOptions()
        if "threads" in way:
            options.intra_op_num_threads = way["threads"]
        if "parallel" in way:
            options.execution_mode = self._library.ExecutionMode.ORT_PARALLEL
        try:
            made = self._library.InferenceSession(
                self._path, sess_options=options, providers=[self._provider]
            )
        except Exception as error:
            raise WorkloadError(f"ONNX Runtime cannot load {self._path!r}: {error}") from error
        if made.get_providers()[0] != self._provider:  # it falls back without an error
            raise BackendUnavailable(
                f"ONNX Runtime loads {self._path!r}, but not with {self._provider}",
                hint="run 'gpuforge doctor': a library of that device is missing",
            )
        return made

    def _feeds(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if len(args) == 1 and isinstance(args[0], dict):
            return self._feeds((), {**args[0], **kwargs})
        if len(args) > len(self._inputs):
            raise WorkloadError(
                f"{len(args)} inputs were given, the model has {', '.join(self._inputs)}"
            )
        named = {**dict(zip(self._inputs, args, strict=False)), **kwargs}
        return {name: np.ascontiguousarray(value) for name, value in named.items()}

    def release(self) -> None:
        """Do nothing: a session keeps its memory for as long as it exists."""

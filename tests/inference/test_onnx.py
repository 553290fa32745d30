"""Predictions of ONNX files: equal to ONNX Runtime's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge.errors import BackendUnavailable, WorkloadError

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

RNG = np.random.default_rng(0)
WEIGHT = RNG.normal(size=(6, 4)).astype(np.float32)
X = RNG.random((50, 6), dtype=np.float32)
SHIFT = RNG.random((50, 4), dtype=np.float32)


def written(path: Path, batch: Any = "items", outputs: int = 1) -> str:
    """Write a model: relu(x @ weight) + shift, and that without shift; return its path."""
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [
        helper.make_node("MatMul", ["x", "weight"], ["product"]),
        helper.make_node("Relu", ["product"], ["positive"]),
        helper.make_node("Add", ["positive", "shift"], ["shifted"]),
    ]
    results = ["shifted", "positive"][:outputs]
    graph = helper.make_graph(
        nodes, "model",
        [helper.make_tensor_value_info("x", floats, [batch, 6]),
         helper.make_tensor_value_info("shift", floats, [batch, 4])],
        [helper.make_tensor_value_info(name, floats, [batch, 4]) for name in results],
        [onnx.numpy_helper.from_array(WEIGHT, "weight")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)
    return str(path)


def plainly(path: str, **feeds: Any) -> list[Any]:
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


@pytest.fixture
def path(tmp_path: Path) -> str:
    return written(tmp_path / "model.onnx")


@pytest.mark.parametrize("batch", ["auto", 7, 50])
@pytest.mark.parametrize("optimize", [False, True])
def test_results_equal_onnx_runtimes(path: str, batch: Any, optimize: bool) -> None:
    (expected,) = plainly(path, x=X, shift=SHIFT)
    predict = gf.inference(path, batch=batch, optimize=optimize)
    for found in (predict(X, SHIFT), predict(X, shift=SHIFT), predict({"x": X, "shift": SHIFT})):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    assert bool(predict.report.trials) is optimize
    assert "model.onnx" in str(predict.report)


def test_several_outputs_come_by_name(tmp_path: Path) -> None:
    path = written(tmp_path / "two.onnx", outputs=2)
    shifted, positive = plainly(path, x=X, shift=SHIFT)
    found = gf.inference(path, batch=16)(X, SHIFT)
    assert list(found) == ["shifted", "positive"]
    np.testing.assert_allclose(found["shifted"], shifted, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found["positive"], positive, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("count", [1, 4, 9, 50])
@pytest.mark.parametrize("optimize", [False, True])
def test_a_fixed_batch_takes_any_number(tmp_path: Path, count: int, optimize: bool) -> None:
    path = written(tmp_path / "fixed.onnx", batch=4)
    predict = gf.inference(path, optimize=optimize)
    found = predict(X[:count], SHIFT[:count])
    np.testing.assert_allclose(
        found, np.maximum(X @ WEIGHT, 0)[:count] + SHIFT[:count], rtol=1e-5, atol=1e-5
    )
    assert predict.report.batch == 4


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="no file"):
        gf.inference(tmp_path / "missing.onnx")
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    with pytest.raises(WorkloadError, match="cannot load"):
        gf.inference(broken)


def test_wrong_inputs_are_told(path: str) -> None:
    with pytest.raises(WorkloadError, match="3 inputs were given, the model has x, shift"):
        gf.inference(path)(X, SHIFT, X)


def test_a_device_without_provider(path: str) -> None:
    if "CUDAExecutionProvider" in runtime.get_available_providers():
        pytest.skip("this build has one for CUDA")
    with pytest.raises(BackendUnavailable, match="no provider for device 'cuda'"):
        gf.inference(path, device="cuda")

"""Predictions of PyTorch modules: equal to plain ones, the module as it was."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge.errors import (
    BackendUnavailable,
    DeviceOutOfMemory,
    InvalidSettings,
    UnknownName,
    WorkloadError,
)
from gpuforge.inference import predictor

torch = pytest.importorskip("torch", reason="torch is not installed")

IMAGES = np.random.default_rng(0).random((70, 3, 8, 8), dtype=np.float32)


def network() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(),
        torch.nn.Flatten(), torch.nn.Dropout(), torch.nn.Linear(144, 5),
    )  # fmt: skip


def plainly(module: Any, *inputs: Any) -> Any:
    """Return what PyTorch itself makes of inputs, in evaluation mode."""
    with torch.no_grad():
        return copy.deepcopy(module).eval()(*map(torch.from_numpy, inputs)).numpy()


def state(module: Any) -> Any:
    tensors = (*module.parameters(), *module.buffers())
    return [
        *(part.training for part in module.modules()),
        *((id(one), one._version, one.is_contiguous(), one.dtype) for one in tensors),
        *((one.requires_grad, one.grad) for one in module.parameters()),
    ]


def close(found: Any, expected: Any, tolerance: float = predictor.TOLERANCE) -> None:
    assert type(found) is np.ndarray
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


class Counting(torch.nn.Module):
    """Doubles its input, notes the batches, and runs out of memory beyond `most` items."""

    def __init__(self, most: int = 10**9, error: type[Exception] | None = None) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(2.0))
        self.most, self.batches = most, []
        self.error = error or torch.OutOfMemoryError

    def forward(self, x: Any) -> Any:
        if len(x) > self.most:
            raise self.error("not enough memory: you tried to allocate 99 bytes")
        self.batches.append(len(x))
        return x * self.weight


@pytest.fixture
def without_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``torch.compile`` fail: it takes seconds, and has a test of its own."""

    def fail(_: Any) -> Any:
        raise RuntimeError("no compiler here")

    monkeypatch.setattr(torch, "compile", fail)


class TestResults:
    @pytest.mark.parametrize("batch", ["auto", 1, 7, 70, 200])
    def test_they_equal_plain_pytorch(self, batch: Any) -> None:
        net = network()
        before = state(net)
        found = gf.inference(net, batch=batch).predict(IMAGES)
        close(found, plainly(net, IMAGES))
        assert state(net) == before
        assert all(part.training for part in net.modules())

    def test_modes_of_parts_are_kept_even_when_it_raises(self) -> None:
        net = network()
        net[1].eval()
        with pytest.raises(RuntimeError):
            gf.inference(net)(np.ones((2, 99), dtype=np.float32))
        assert [part.training for part in net] == [True, False, True, True, True, True]

    def test_several_inputs_and_outputs(self) -> None:
        class Several(torch.nn.Module):
            def forward(self, x: Any, rest: Any, *, factor: float) -> Any:
                return {"sum": x + rest["y"], "pair": (x * factor, [x > 0])}

        x, y = IMAGES[:, 0], IMAGES[:, 1]
        found = gf.inference(Several(), batch=16).predict(x, {"y": y}, factor=3.0)
        close(found["sum"], x + y)
        close(found["pair"][0], np.float32(3.0) * x)
        assert np.array_equal(found["pair"][1][0], x > 0)

    def test_gradients_go_on_as_before(self) -> None:
        net = network()
        predict = gf.inference(net)
        loss = net(torch.from_numpy(IMAGES[:4])).sum()
        predict(IMAGES[:4])
        loss.backward()
        assert all(one.grad is not None for one in net.parameters())

    def test_results_share_no_memory(self) -> None:
        net = torch.nn.Identity()
        x = IMAGES.copy()
        found = gf.inference(net)(x[:3])
        found += 1
        assert np.array_equal(x, IMAGES)

    def test_no_items(self) -> None:
        assert gf.inference(network())(IMAGES[:0]).shape == (0, 5)

    def test_arrays_as_they_lie(self) -> None:
        reversed_, fixed = IMAGES[::-1], IMAGES.copy()
        fixed.flags.writeable = False
        net = network()
        close(gf.inference(net)(reversed_), plainly(net, np.ascontiguousarray(reversed_)))
        close(gf.inference(net)(fixed), plainly(net, IMAGES))

    def test_bfloat16_results_are_float32(self) -> None:
        found = gf.inference(Counting().to(torch.bfloat16))(np.ones(3, dtype=np.float32))
        assert found.dtype == np.float32


class TestBatches:
    @pytest.mark.parametrize("error", [None, RuntimeError, MemoryError])
    def test_they_halve_when_memory_runs_out(self, error: Any) -> None:
        net = Counting(most=9, error=error)
        predict = gf.inference(net)
        x = np.arange(50, dtype=np.float32)
        assert np.array_equal(predict(x), 2 * x)
        assert max(net.batches) <= 9
        assert predict.report.batch == 6
        net.batches.clear()
        predict(x)
        assert net.batches == [6] * 8 + [2], "what was learned is remembered"
        assert any("memory ran out" in note for note in predict.report.notes)

    def test_an_allocation_that_fails_is_seen(self) -> None:
        class Wide(Counting):
            def forward(self, x: Any) -> Any:
                if len(x) > 4:
                    torch.empty(2**46)
                return super().forward(x)

        net = Wide()
        x = np.arange(20, dtype=np.float32)
        assert np.array_equal(gf.inference(net)(x), 2 * x)
        assert max(net.batches) <= 4

    def test_inputs_that_cannot_be_split_run_out(self) -> None:
        class Table(torch.nn.Module):
            def forward(self, index: Any, table: Any) -> Any:
                raise torch.OutOfMemoryError("no memory")

        with pytest.raises(DeviceOutOfMemory, match="these inputs"):
            gf.inference(Table())(np.arange(3), np.arange(7.0))

    def test_too_little_for_one_item(self) -> None:
        with pytest.raises(DeviceOutOfMemory, match="a single item"):
            gf.inference(Counting(most=0))(np.ones(5, dtype=np.float32))

    def test_other_errors_are_the_models_own(self) -> None:
        net = Counting(most=0, error=KeyError)
        net.error = lambda text: KeyError("mine")
        with pytest.raises(KeyError, match="mine"):
            gf.inference(net)(np.ones(5, dtype=np.float32))

    def test_what_depends_on_the_whole_batch_is_not_split(self) -> None:
        class Share(torch.nn.Module):
            def forward(self, x: Any) -> Any:
                return x / x.sum(0)

        x = np.arange(1, 5001, dtype=np.float32)
        predict = gf.inference(Share())
        close(predict(x), x / x.sum())
        assert predict.report.batch is None
        assert any("depend on the whole batch" in note for note in predict.report.notes)
        with pytest.raises(WorkloadError, match="different results for parts"):
            gf.inference(Share(), batch=10)(x)

    def test_arrays_of_other_lengths_are_not_split(self) -> None:
        class Table(torch.nn.Module):
            def forward(self, index: Any, table: Any) -> Any:
                return table[index]

        index, table = np.arange(60) % 7, np.arange(7.0)
        assert np.array_equal(gf.inference(Table())(index, table), table[index])

    def test_large_inputs_come_in_parts(self) -> None:
        net = Counting()
        gf.inference(net)(np.ones((20, 1 << 20), dtype=np.float32))
        assert net.batches[3:] == [8, 8, 4], "32 MiB each, after a look at two items"
        net.batches.clear()
        gf.inference(net)(np.ones(5000, dtype=np.float32))
        assert net.batches[3:] == [4096, 904]


@pytest.mark.usefixtures("without_compiling")
class TestOptimizing:
    def test_what_is_tried_is_compared_and_reported(self) -> None:
        net = network()
        before = state(net)
        predict = gf.inference(net, optimize=True)
        found = predict(IMAGES)
        close(found, plainly(net, IMAGES))
        assert state(net) == before
        report = predict.report
        names = [trial.name for trial in report.trials]
        assert {"inference_mode", "channels_last", "compile"} <= set(names)
        assert not any("half" in name for name in names), "numerics are strict"
        for trial in report.trials:
            assert trial.used is (trial.note == "")
            if trial.used:
                assert trial.difference <= report.tolerance
                assert trial.seconds < trial.against_seconds
        compiled = report.trials[names.index("compile")]
        assert "no compiler here" in compiled.note
        used = [trial.name for trial in report.trials if trial.used]
        assert report.used == (" + ".join(used) or "plain")
        assert "compile" in str(report)
        assert len(predict.report.trials) == len(names)
        predict(IMAGES[:5])
        assert len(predict.report.trials) == len(names), "found out once for inputs of one kind"

    def test_relaxed_numerics_try_half_precision(self) -> None:
        net = network()
        predict = gf.inference(net, optimize=True, numerics="relaxed")
        close(predict(IMAGES), plainly(net, IMAGES), predictor.TOLERANCE_RELAXED)
        half = next(one for one in predict.report.trials if one.name.startswith("half"))
        assert half.difference is not None
        assert half.difference > 0
        assert all(one.dtype is torch.float32 for one in net.parameters())

    def test_a_way_whose_results_differ_is_not_believed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(torch, "compile", lambda _: lambda x: torch.zeros(len(x), 5))
        net = network()
        predict = gf.inference(net, optimize=True)
        close(predict(IMAGES), plainly(net, IMAGES))
        wrong = next(one for one in predict.report.trials if one.name == "compile")
        assert (wrong.used, wrong.note) == (False, "not used: its results differ")

    def test_changed_parameters_count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(predictor, "GAIN", float("inf"))  # every way is used
        net = network()
        predict = gf.inference(net, optimize=True)
        predict(IMAGES)
        assert "channels_last" in predict.report.used
        with torch.no_grad():
            net[-1].bias += 1.0
        close(predict(IMAGES), plainly(net, IMAGES))
        assert predict.report.used == "plain"
        assert any("parameters changed" in note for note in predict.report.notes)

    def test_a_module_that_changes_its_buffers_is_left_alone(self) -> None:
        class Counter(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("calls", torch.zeros(()))

            def forward(self, x: Any) -> Any:
                self.calls += 1
                return x + 1

        predict = gf.inference(Counter(), optimize=True)
        predict(IMAGES[:3])
        assert predict.report.trials == ()
        assert any("changes its own buffers" in note for note in predict.report.notes)

    def test_memory_that_runs_out_at_first_halves_the_batch(self) -> None:
        net = Counting(most=9)
        predict = gf.inference(net, optimize=["inference_mode"])
        x = np.arange(50, dtype=np.float32)
        assert np.array_equal(predict(x), 2 * x)
        assert predict.report.batch == 6
        assert [trial.name for trial in predict.report.trials] == ["inference_mode"]

    def test_only_what_is_named_is_tried(self) -> None:
        predict = gf.inference(network(), optimize=["inference_mode", "half"])
        predict(IMAGES)
        assert [trial.name for trial in predict.report.trials] == ["inference_mode"]

    def test_threads_are_set_back(self) -> None:
        before = torch.get_num_threads()
        gf.inference(network(), optimize=True)(IMAGES)
        assert torch.get_num_threads() == before


@pytest.mark.slow
def test_a_compiled_module_predicts_as_a_plain_one() -> None:
    program = (
        "import numpy as np, torch, gpuforge as gf\n"
        "torch.manual_seed(0)\n"
        "net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval()\n"
        "x = np.ones((4, 8), dtype=np.float32)\n"
        "predict = gf.inference(net, optimize=True)\n"
        "found = predict(x)\n"
        "with torch.no_grad(): expected = net(torch.from_numpy(x)).numpy()\n"
        "trial = predict.report.trials[-1]\n"
        "assert trial.name == 'compile', trial\n"
        "assert trial.difference is not None and trial.difference < 1e-4, trial\n"
        "assert np.allclose(found, expected, rtol=1e-4)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


class TestWrongUse:
    @pytest.mark.parametrize("options", [{"batch": 0}, {"batch": "large"}, {"numerics": "exact"}])
    def test_options(self, options: Any) -> None:
        with pytest.raises(InvalidSettings, match=next(iter(options))):
            gf.inference(network(), **options)

    def test_a_way_that_is_none(self) -> None:
        with pytest.raises(UnknownName, match="channel_last"):
            gf.inference(network(), optimize=["channel_last"])

    def test_something_else(self) -> None:
        with pytest.raises(WorkloadError, match=r"builtins\.int"):
            gf.inference(3)

    def test_a_device_that_is_not_there(self) -> None:
        with pytest.raises(BackendUnavailable, match="nonsense"):
            gf.inference(network(), device="nonsense")

    def test_the_device_it_is_on_needs_no_copy(self) -> None:
        net = network()
        close(gf.inference(net, device="cpu")(IMAGES), plainly(net, IMAGES))

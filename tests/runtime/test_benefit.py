"""Whether a call would benefit: what is answered, on what evidence, and what finding out leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge.errors import BackendUnavailable
from gpuforge.runtime.execution import benefit, measurement
from gpuforge.runtime.execution.measurement import Arguments, Contender, Measurement, race
from gpuforge.runtime.placement.evidence import Estimate

LARGE = np.random.default_rng(0).random((120, 120))
"""Enough for a measurement, too few for PyTorch's threads: times are steady on a busy machine."""


def slow_in_numpy(x: Any) -> Any:
    """Many operations over the array: one graph elsewhere."""
    for _ in range(30):
        x = 0.999 * np.sin(x)
    return x


def row_of(answer: Any, name: str) -> Any:
    return next(row for row in answer.rows if row.backend == name)


@pytest.fixture
def with_torch(torch: Any) -> Iterator[Any]:
    with gf.session(history=False, backends=["numpy", "torch"]) as held:
        yield held


def contender(name: str, *seconds: float) -> tuple[Contender, list[float]]:
    """Return a contender whose calls take `seconds` one after the other, the last one for ever."""
    made: list[float] = []

    def make(_: Contender) -> float:
        made.append(seconds[min(len(made), len(seconds) - 1)])
        return made[-1]

    return Contender(name, make), made


class TestAnswers:
    def test_a_measured_call_names_times_evidence_and_cost(self, with_torch: Any) -> None:
        answer = gf.would_benefit(slow_in_numpy, LARGE)
        assert answer.verdict in ("yes", "no")
        assert bool(answer) is (answer.verdict == "yes")
        assert (answer.evidence, answer.backend) == ("measured", "torch:cpu")
        assert answer.ratio == answer.numpy_seconds / answer.other_seconds
        assert (answer.ratio > 1) is bool(answer)
        assert answer.runs >= 3
        assert 0 < answer.numpy_seconds < answer.cost_seconds
        assert 0 <= answer.transfer_seconds <= answer.other_seconds
        assert 0.5 <= answer.confidence <= 0.99
        text = str(answer)
        assert f"would benefit: {answer.verdict} ({100 * answer.confidence:.0f} % sure)" in text
        assert "float64[120,120]" in text
        assert f"measuring this took {answer.runs} calls" in text
        with pytest.raises(FrozenInstanceError):
            answer.verdict = "yes"

    def test_a_tiny_call_is_no_and_loads_nothing(self, with_torch: Any) -> None:
        answer = gf.would_benefit(np.sin, np.ones(3))
        assert answer.verdict == "no"
        assert not with_torch.libraries["torch"].opened
        assert answer.backend == ""
        assert any("combine" in one for one in answer.advice)

    def test_without_measuring_nothing_is_known_at_first(self, with_torch: Any) -> None:
        def never(x: Any) -> Any:
            raise AssertionError("it was run")

        answer = gf.would_benefit(never, LARGE, measure=False)
        assert (answer.verdict, answer.evidence, answer.runs) == ("unknown", "nothing", 0)
        assert answer.ratio is None
        assert any("measure=True" in one for one in answer.advice)

    def test_what_was_measured_for_an_offloaded_function_is_kept(
        self, with_torch: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Measurement, "_as_written", lambda *_: 60.0)
        placed = gf.offload(slow_in_numpy)
        first = gf.would_benefit(placed, LARGE)
        again = gf.would_benefit(placed, LARGE)
        assert (first.evidence, again.evidence, again.runs) == ("measured", "learned", 0)
        assert first.verdict == again.verdict == "yes"
        assert placed.explain(LARGE).choice == "torch:cpu"
        assert placed.stats().counts == {}, "measurements are no calls of the program"

    def test_predictions_that_are_not_sure_are_no_answer(self, with_torch: Any) -> None:
        with_torch.find("torch")
        placed = gf.offload(slow_in_numpy)
        placed(LARGE)
        placed.explain(LARGE)
        kind = next(iter(placed.stats().kinds.values())).kind
        for spread, verdict in ((5.0, "unknown"), (0.01, "yes")):
            kind.prior = lambda name, size, base, s=spread: Estimate(base / 1.5, s, "calibrated")
            answer = gf.would_benefit(placed, LARGE, measure=False)
            assert answer.verdict == verdict
            assert answer.evidence == "predicted"
            assert answer.backend == "torch:cpu"

    def test_where_a_gpu_may_be_a_library_never_opened_is_unknown(
        self, with_torch: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        placed = gf.offload(slow_in_numpy)
        placed(LARGE)
        for no_gpu, evidence in ((False, "nothing"), (True, "predicted")):
            monkeypatch.setattr(benefit, "is_for_gpus", lambda _, no_gpu=no_gpu: no_gpu)
            answer = gf.would_benefit(placed, LARGE, measure=False)
            assert answer.evidence == evidence
        assert not with_torch.libraries["torch"].opened

    def test_an_only_library_has_no_rival(self) -> None:
        with gf.session(history=False, backends=["numpy"]):
            answer = gf.would_benefit(slow_in_numpy, LARGE)
        assert answer.verdict == "no"
        assert "no other allowed array library is installed" in answer.reason
        assert "install" in answer.advice[0]

    def test_a_result_that_differs_is_no_candidate(
        self, with_torch: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        backend = with_torch.find("torch")
        genuine = backend.get
        monkeypatch.setattr(backend, "get", lambda value: genuine(value) + 1.0)
        answer = gf.would_benefit(slow_in_numpy, LARGE)
        assert answer.verdict == "no"
        assert "no other backend can run this call" in answer.reason
        assert not row_of(answer, "torch:cpu").candidate


class TestCallsThatAreNotPlaced:
    @pytest.mark.parametrize(
        ("value", "reason"),
        [(3, "no NumPy array"), (np.array(["a"]), "dtype <U1"), (np.ma.array([1.0]), "subclass")],
    )
    def test_values(self, quiet_session: Any, value: Any, reason: str) -> None:
        answer = gf.would_benefit(lambda x: x, value)
        assert answer.verdict == "no"
        assert reason in answer.reason
        assert answer.runs == 0

    def test_functions(self, quiet_session: Any) -> None:
        def later(x: Any) -> Iterator[Any]:
            yield x

        assert "in steps" in gf.would_benefit(later, LARGE).reason
        impure = gf.offload(pure=False)(slow_in_numpy)
        assert "pure=False" in gf.would_benefit(impure, LARGE).reason

    def test_switched_off(self) -> None:
        with gf.session(history=False, enabled=False):
            assert "GPUFORGE_ENABLED" in gf.would_benefit(slow_in_numpy, LARGE).reason

    def test_a_pinned_backend_that_is_missing_raises(self) -> None:
        pinned = gf.offload(backend="torch")(slow_in_numpy)
        with gf.session(history=False, forbid=["torch"]), pytest.raises(BackendUnavailable):
            gf.would_benefit(pinned, LARGE)


class TestWhatMeasuringLeaves:
    def test_arguments_are_as_before(self, with_torch: Any) -> None:
        totals: list[float] = []

        def accumulate(x: Any, into: list[Any]) -> Any:
            totals.append(float(x[0, 0]))
            x += 1.0
            into[0] += x
            return np.sin(x) @ np.cos(x)

        x, into = LARGE.copy(), [np.zeros_like(LARGE)]
        gf.would_benefit(accumulate, x, into)
        assert np.array_equal(x, LARGE)
        assert not into[0].any()
        assert len(totals) > 2
        assert set(totals) == {LARGE[0, 0]}, "each run has to begin with the caller's values"

    def test_what_the_function_raises_is_raised(self, with_torch: Any) -> None:
        with pytest.raises(np.linalg.LinAlgError):
            gf.would_benefit(np.linalg.inv, np.zeros((3, 3)))

    def test_a_method_is_measured_with_its_object(self, with_torch: Any) -> None:
        class Model:
            weight = 3.0

            @gf.offload
            def scaled(self, x: Any) -> Any:
                return self.weight * slow_in_numpy(x)

        answer = gf.would_benefit(Model().scaled, LARGE)
        assert answer.evidence == "measured"
        assert answer.function.endswith("Model.scaled")

    def test_an_array_given_twice_is_one_copy(self) -> None:
        x, other = np.ones(3), np.ones(3)
        (left, pair), named = Arguments((x, [x, other]), {"y": x}).fresh()
        assert left is pair[0] is named["y"]
        assert left is not x
        assert pair[1] is not left


class TestTheRace:
    def test_a_clear_winner_ends_it_early(self) -> None:
        numpy, _ = contender("numpy", 0.01)
        fast, made = contender("fast", 0.004)
        numpy.take_turn()
        race(numpy, [fast])
        assert len(fast.cell.seconds) == measurement.LEAST_TURNS
        assert len(made) <= measurement.LEAST_TURNS * measurement.IN_A_ROW

    def test_a_hopeless_one_is_called_little_a_close_one_to_the_end(self) -> None:
        numpy, _ = contender("numpy", 0.01)
        hopeless, made = contender("hopeless", 0.2)
        close, _ = contender("close", 0.0101)
        numpy.take_turn()
        race(numpy, [hopeless, close])
        assert len(made) == 1
        assert len(close.cell.seconds) == measurement.MOST_TURNS

    def test_long_calls_take_one_turn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(measurement, "LIMIT_SECONDS", -1.0)
        numpy, _ = contender("numpy", 0.01)
        other, made = contender("other", 0.01)
        numpy.take_turn()
        race(numpy, [other])
        assert len(made) == 1

    def test_one_that_fails_takes_no_more_turns(self) -> None:
        def fail(one: Contender) -> float:
            one.left_out = "it failed"
            return 0.0

        numpy, _ = contender("numpy", 0.01)
        failing = Contender("failing", fail)
        numpy.take_turn()
        race(numpy, [failing])
        assert (failing.runs, len(failing.cell.seconds)) == (1, 0)

"""Stored results of a bench: read as written, refused when damaged, and read by pyperf."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuforge.errors import WorkloadError
from gpuforge.history import BenchmarkRun
from gpuforge.profiler.bench.result import BenchResult, Measured, read, save
from gpuforge.profiler.bench.runs import keep, open_history
from gpuforge.profiler.compare.conditions import Conditions
from gpuforge.profiler.compare.stored_results import difference

RESULT = BenchResult(
    1.7e9,
    "v1-3-gabc",
    Conditions("m", {"cpu": "one", "gpu 0 power cap (W)": "700"}, {"cpu boost": "no file"}),
    (Measured("ops.py::bench_a", 4, (1e-3, 1.1e-3, 0.9e-3)), Measured("b", 1, (2.0,), ("wait",))),
)


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    save(RESULT, tmp_path / "r.json")
    assert read(tmp_path / "r.json") == RESULT


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.data())
def test_a_damaged_result_is_refused(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "r.json"
    save(RESULT, path)
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place : place + data.draw(st.integers(1, 40))] = data.draw(st.binary(max_size=8))
    path.write_bytes(content)
    try:
        found = read(path)
    except WorkloadError as error:
        assert "r.json" in str(error) and error.hint
    else:
        assert all(time > 0 for one in found.benchmarks for time in one.blocks)


@pytest.mark.parametrize("text", ["", "[]", "{}", "1", '{"@": "BenchResult"}', '{"@": "Path"}'])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(WorkloadError, match="is not a bench result"):
        read(tmp_path / "r.json")


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="cannot be read"):
        read(tmp_path / "none.json")
    with pytest.raises(WorkloadError, match="cannot be written"):
        save(RESULT, tmp_path / "no" / "r.json")


def test_pyperf_reads_the_export(tmp_path: Path) -> None:
    pyperf = pytest.importorskip("pyperf")
    save(RESULT, tmp_path / "r.json", "pyperf")
    suite = pyperf.BenchmarkSuite.load(str(tmp_path / "r.json"))
    assert suite.get_benchmark_names() == ["ops.py::bench_a", "b"]
    first = suite.get_benchmark("ops.py::bench_a")
    assert first.get_values() == (1e-3, 1.1e-3, 0.9e-3)
    assert first.get_unit() == "second" and first.get_total_loops() == 4
    metadata = first.get_metadata()
    assert metadata["gpuforge_cpu"] == "one" and metadata["gpuforge_version_of_code"] == "v1-3-gabc"
    assert first.get_dates()[0].timestamp() and first.median() == 1e-3


def test_the_export_is_of_pyperfs_format(tmp_path: Path) -> None:
    save(RESULT, tmp_path / "r.json", "pyperf")
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["version"] == "1.0" and document["metadata"]["unit"] == "second"
    assert document["benchmarks"][1]["runs"] == [{"values": [2.0]}]


def test_runs_are_kept_under_their_machine() -> None:
    assert keep(RESULT).problem == ""
    assert open_history("m").runs("b") == [BenchmarkRun("b", 1.7e9, "v1-3-gabc", 2.0)]
    assert [run.name for run in open_history("m").runs()] == ["b", "ops.py::bench_a"]
    assert open_history("other").runs() == []


def test_nothing_is_kept_without_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUFORGE_HISTORY", "false")
    keep(RESULT)
    monkeypatch.delenv("GPUFORGE_HISTORY")
    assert open_history("m").runs() == []


STEADY = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 1.01]


def test_few_runs_prove_nothing() -> None:
    found = difference([1.0] * 30, [2.0] * 30, STEADY[:4])
    assert (found.verdict, found.noise) == ("inconclusive", None)
    assert found.reason == "unpaired, weak evidence: 4 runs in the history, 5 are needed"
    assert found.change == 1.0 and found.test.p < 1e-6


def test_a_change_beyond_what_runs_differ_by_is_believed() -> None:
    assert difference([1.0], [1.3], STEADY).verdict == "slower"
    assert difference([1.3], [1.0], STEADY).verdict == "faster"
    small = difference([1.0], [1.05], STEADY)
    assert (
        small.verdict == "inconclusive" and "runs of the same code differ by up to" in small.reason
    )


def test_runs_that_agree_show_that_two_are_the_same() -> None:
    runs = [1 + step / 1000 for step in (0, 1, -1, 0, 1, 0, -1, 0, 1, 0)]
    assert difference([1.0], [1.003], runs).verdict == "same"


def test_runs_before_a_change_say_nothing_of_what_runs_differ_by() -> None:
    before = [time * 3 for time in STEADY]
    found = difference([1.0], [1.3], before + STEADY)
    assert found.runs == len(STEADY) and found.verdict == "slower"

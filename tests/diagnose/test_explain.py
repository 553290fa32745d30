"""From error text to cause: samples, near misses, labelled reports, hostile input."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuforge.diagnose import explain, known_error
from gpuforge.diagnose.explanation import NAMED
from gpuforge.diagnose.log import LINES_PER_CLUE, WINDOW_AFTER, WINDOW_BEFORE, Log, words_of
from gpuforge.diagnose.memory_figures import is_fragmented, parse_figures
from gpuforge.errors import UnknownName
from gpuforge.facts import Device, Host, Machine, VendorFailure

from .known_errors_index import build_index, files

FILES = {cause: tomllib.loads(tests) for cause, _, tests in files()}
SAMPLES = [(cause, text) for cause, tests in FILES.items() for text in tests["match"]]
NEAR_MISSES = [(want, text) for tests in FILES.values() for want, text in tests["other"]]
EVERY_FIND = [
    text
    for error in known_error.known_errors().values()
    for clue in error.clues
    for text in clue.find
]


def named(text: str, machine: Machine | None = None) -> str:
    cause = explain(text, machine).cause
    return cause.cause if cause else "none"


@pytest.mark.parametrize(("cause", "text"), SAMPLES)
def test_sample_is_named_by_its_cause(cause: str, text: str) -> None:
    assert named(text) == cause


@pytest.mark.parametrize(("want", "text"), NEAR_MISSES)
def test_near_miss_is_named_by_its_own_cause_or_none(want: str, text: str) -> None:
    assert named(text) == want


@pytest.mark.parametrize("error", known_error.known_errors().values(), ids=lambda e: e.cause)
def test_known_error_is_complete(error: known_error.KnownError) -> None:
    causes = known_error.known_errors()
    assert error.severity in ("info", "warning", "error", "critical")
    assert error.source.startswith("https://")
    assert error.steps
    assert error.summary
    assert all(other == "*" or other in causes for other in error.yields_to)
    assert FILES[error.cause]["match"]
    assert FILES[error.cause]["other"]
    for clue in error.clues:
        assert 0 <= clue.weight < 1
        assert clue.find or clue.machine
        assert all(text == text.lower() and text.strip() == text for text in clue.find)
        assert all(map(words_of, clue.find)), f"{clue.find}: no word to look for"
        assert clue.when in ("", "fragmented", "other_cuda_major", "hides_module")
        re.compile(clue.match)
        for sign in (*clue.needs, *clue.unless):
            assert not sign.startswith("@") or sign[1:] in known_error.contexts()


def test_the_index_says_what_the_files_say() -> None:
    again = "python tests/diagnose/known_errors_index.py makes the index anew"
    assert known_error.INDEX.read_text("utf-8") == build_index(), again


@pytest.mark.parametrize("error", known_error.known_errors().values(), ids=lambda e: e.cause)
def test_patterns_cannot_backtrack_without_end(error: known_error.KnownError) -> None:
    patterns = [clue.match for clue in error.clues]
    signs = [sign.match for signs in known_error.contexts().values() for sign in signs]
    for pattern in [*patterns, *signs]:
        assert not re.search(r"[*+]\)[*+{]", pattern), pattern


def test_causes_and_severities_are_those_of_the_corpus(corpus: Path) -> None:
    table = tomllib.loads((corpus / "errors" / "causes.toml").read_text("utf-8"))
    known = known_error.known_errors()
    assert set(table) <= set(known), "causes beyond the table are welcome"
    for cause, entry in table.items():
        assert known[cause].severity == entry["severity"]
        assert known[cause].safe_fix == entry["safe_auto_fix"]


def test_labelled_reports_are_explained(corpus: Path) -> None:
    lines = (corpus / "errors" / "cases.jsonl").read_text("utf-8").splitlines()
    cases = [json.loads(line) for line in lines]
    wrong, wrong_but_sure, healthy_named = [], [], []
    for case in cases:
        answer = explain(case["text"])
        first = answer.matches[0] if answer.matches else None
        if case["cause"] == "none":
            if answer.cause and answer.cause.cause not in case["also"]:
                healthy_named.append(case["id"])
        elif first is None or first.cause not in (case["cause"], *case["also"]):
            wrong.append(case["id"])
            if first and first.confidence > 0.8:
                wrong_but_sure.append(case["id"])
    assert len(wrong) <= 0.05 * len(cases), wrong
    assert len(wrong_but_sure) <= 0.02 * len(cases), wrong_but_sure
    assert not healthy_named


def test_evidence_tells_line_and_text() -> None:
    match = explain("step 1\nstep 2\n\x1b[31mRuntimeError: CUDA out of memory.\x1b[0m\n").cause
    assert match is not None
    assert (match.evidence[0].line, match.evidence[0].text) == (
        3,
        "RuntimeError: CUDA out of memory.",
    )


@pytest.mark.parametrize(
    ("cause", "line"),
    [
        ("disk_full", "tar: Cannot write: Auf dem Gerät ist kein Speicherplatz mehr verfügbar"),
        ("cuda_runtime_lib_missing", "libcublas.so.11: 无法打开共享对象文件: 没有那个文件或目录"),
        ("nvcc_not_found_cuda_home", "'nvcc' n’est pas reconnu en tant que commande interne"),
    ],
)
def test_other_languages_are_read_and_shown_as_they_are(cause: str, line: str) -> None:
    match = explain(f"step 1\n{line}\nstep 3").cause
    assert match is not None
    assert match.cause == cause
    assert (match.evidence[0].line, match.evidence[0].text) == (2, line.replace("’", "'"))


def test_clues_in_one_line_are_one_sign() -> None:
    line = "Vulkan loader not found"
    error = known_error.known_error("vulkan_driver_missing")
    fitting = [clue for clue in error.clues if re.search(clue.match, line.lower())]
    weights = [clue.weight for clue in fitting if any(text in line.lower() for text in clue.find)]
    assert len(weights) > 1
    cause = explain(line).cause
    assert cause is not None
    assert cause.confidence == max(weights)


def test_places_are_found_wherever_they_are_in_a_long_log() -> None:
    texts = ("error 702", "本文", "cuda", "no such device")
    letters = str.maketrans("0123456789", "abcdefghij")
    lines = [f"{str(n).translate(letters)}: error 70{n % 3}, no such" for n in range(3000)]
    for number in (0, 1, 1500, 2998, 2999):
        lines[number] += " device, error 702 of CUDA12 (本文)"
    log = Log("\n".join(lines))
    for text in texts:
        expected = [n for n, line in enumerate(lines) if text in line.lower()][:LINES_PER_CLUE]
        assert [log.line_number(place.position) - 1 for place in log.places(text)] == expected
        assert [place.window for place in log.places(text)] == [lines[n].lower() for n in expected]


def test_a_text_that_is_nowhere_is_not_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log("\n".join(["cuda error 719: driver 535 failed"] * 200))
    assert log.words
    monkeypatch.setattr(log, "_ascii", None)
    assert not any(map(list, map(log.places, ("error 30", "cuda driver", "driver error"))))


def test_first_fault_is_named_before_what_follows_from_it() -> None:
    text = (
        "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
        "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)\nKilled\n"
    )
    answer = explain(text)
    assert answer.cause is not None
    assert answer.cause.cause == "ecc_uncorrectable"
    assert [m.cause for m in answer.matches[1:]] == [
        m.cause for m in sorted(answer.matches[1:], key=lambda m: -m.confidence)
    ]


def test_exception_is_read_with_its_traceback() -> None:
    try:
        raise RuntimeError("CUDA error: invalid device ordinal")
    except RuntimeError as error:
        answer = explain(error)
    assert answer.cause is not None
    assert answer.cause.cause == "cuda_visible_devices_wrong"


@pytest.mark.parametrize(
    ("log", "own", "other"),
    [
        ("$ uv pip install torch\n", "uv pip install", "python -m pip"),
        ("$ pip install torch\n", "python -m pip install", "conda install"),
        ("(base) $ conda install pytorch\n", "conda install", "python -m pip install"),
    ],
)
def test_steps_fit_the_tool_that_the_log_shows(log: str, own: str, other: str) -> None:
    match = explain(log + "ImportError: libcudart.so.12: cannot open shared object file").cause
    assert match is not None
    steps = "\n".join(match.steps)
    assert own in steps
    assert other not in steps
    assert "{pip}" not in steps


def test_steps_fit_the_platform() -> None:
    text = "OSError: [WinError 126] Error loading fbgemm.dll or one of its dependencies"
    match = explain(text).cause
    assert match is not None
    assert any("redistributable" in step for step in match.steps)


def test_small_card_is_full_not_fragmented() -> None:
    text = (
        "CUDA out of memory. Tried to allocate 60.00 MiB. 1.50 GiB is allocated by PyTorch, "
        "and 190.00 MiB is reserved by PyTorch but unallocated."
    )
    small = Machine("ok", (Device(0, "nvidia", memory_total_bytes=2 * 2**30 + 2**28),))
    assert named(text) == "gpu_memory_fragmentation"
    assert named(text, small) == "gpu_out_of_memory"


def test_vendor_of_the_machine_decides_between_neighbours() -> None:
    text = "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory"
    assert named(text) == "nvidia_driver_not_loaded"
    assert named(text, Machine("ok", (Device(0, "amd"),))) == "wrong_vendor_build"
    assert named(text, Machine("no_gpu", host=Host(platform="wsl2"))) == "wsl_gpu_not_exposed"


def test_failure_of_the_machine_is_evidence() -> None:
    machine = Machine(
        "driver_error", failures=(VendorFailure("nvidia", "version_mismatch", "NVML says 1, 2"),)
    )
    match = explain("nothing here", machine).cause
    assert match is not None
    assert match.cause == "driver_library_version_mismatch"
    assert match.evidence[0].line == 0


def test_what_a_report_of_versions_says_is_absent_is_no_sign() -> None:
    versions = (
        "PyTorch version: 2.6.0+cu124\nCUDA used to build PyTorch: 12.4\n"
        "ROCM used to build PyTorch: N/A\nHIP runtime version: N/A\n"
        "MIOpen runtime version: N/A\nIs XPU available: False\n"
        "Nvidia driver version: 550.54.15\nROCM Version: Could not collect\n"
    )
    assert named(versions) == "none"
    text = "ImportError: libcudart.so.11.0: cannot open shared object file\n"
    assert named(versions + text) == "cuda_runtime_lib_missing"
    assert named(versions + "CUDA error: invalid device function\n") == (
        "extension_no_kernel_for_gpu"
    )


def test_empty_text_has_no_cause() -> None:
    assert explain("").matches == ()


@given(st.text(max_size=400))
@settings(max_examples=60, deadline=None)
def test_any_text_is_read_and_shown_without_control_characters(text: str) -> None:
    answer = explain(text + "\nCUDA out of memory \x1b]0;title\x07 \x1b[2J \x9b31m \u202e end")
    for match in answer.matches:
        assert 0 <= match.confidence <= 1
        for evidence in match.evidence:
            assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", evidence.text)


@pytest.mark.parametrize("separator", ["\n", " "])
def test_hostile_log_costs_a_bounded_number_of_looks(separator: str) -> None:
    block = separator.join(EVERY_FIND) + separator
    text = block * (5_000_000 // len(block))
    log = Log(text)
    for find in EVERY_FIND[::20]:
        places = list(log.places(find))
        assert len(places) <= LINES_PER_CLUE
        assert all(len(p.window) <= WINDOW_BEFORE + WINDOW_AFTER + len(find) for p in places)
    assert explain(text).lines_read


def test_one_line_of_a_megabyte_is_read() -> None:
    text = "x" * 500_000 + " CUDA error: invalid device ordinal " + "y" * 500_000
    match = explain(text).cause
    assert match is not None
    assert match.cause == "cuda_visible_devices_wrong"
    assert len(match.evidence[0].text) <= 240


def test_unknown_cause_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName) as caught:
        known_error.known_error("driver_to_old_for_cuda")
    assert "driver_too_old_for_cuda" in caught.value.hint


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Tried to allocate 2.00 GiB", {"request": 2 * 2**30}),
        (
            "5.61 GiB already allocated; 5.75 GiB reserved in total by PyTorch",
            {
                "allocated": round(5.61 * 2**30),
                "reserved": round(5.75 * 2**30),
                "unused": round(5.75 * 2**30) - round(5.61 * 2**30),
            },
        ),
        ("no numbers", {}),
    ],
)
def test_figures_are_read(line: str, expected: dict[str, int]) -> None:
    assert parse_figures(line) == expected


def test_no_fragmentation_without_unused_memory() -> None:
    assert not is_fragmented("reserved in total by PyTorch")
    assert NAMED == 0.5

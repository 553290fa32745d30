"""What is no evidence names no cause: settings, advice, binary data, what a machine shuffled."""

from __future__ import annotations

import base64
import gzip
import random
import string
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuforge.diagnose import explain
from gpuforge.diagnose.explanation import LISTED
from gpuforge.diagnose.large_log import KEPT_BYTES, reduced
from gpuforge.probe.files import text_of

from .test_fresh_reports import CASES

# Later rounds hold discussions of errors too, a line of which is evidence when it stands alone; of
# their words in no order, two texts in a hundred still name a cause (docs/doctor.md).
LOGS = [case for case in CASES if int(case["id"][1:].split("-")[0]) < 9]
ERRORS = [case["text"] for case in LOGS if case["cause"] != "none"]
ERROR_LINES = [line for text in ERRORS for line in text.splitlines()]
FINE = [case["text"] for case in LOGS if case["cause"] == "none" and not case["also"]]
# Beside lines of another log, these two would be evidence: a failed build, a CPU wheel by a GPU.
TELLING = ("Error 1", "+cpu")
FINE_LINES = [
    line for text in FINE for line in text.splitlines() if not any(part in line for part in TELLING)
]


def _cut(text: str, rng: random.Random) -> str:
    start, end = sorted(rng.choices(range(len(text) + 1), k=2))
    return text[start:end]


def _shuffled(text: str, rng: random.Random) -> str:
    words = text.split()
    return " ".join(rng.sample(words, len(words)))


EMPTY_OF_EVIDENCE: dict[str, Callable[[random.Random], bytes]] = {
    "random bytes": lambda rng: rng.randbytes(rng.randrange(60_000)),
    "printable": lambda rng: "".join(rng.choices(string.printable, k=20_000)).encode(),
    "base64": lambda rng: base64.encodebytes(rng.randbytes(20_000)),
    "gzip": lambda rng: gzip.compress("\n".join(rng.sample(ERRORS, 20)).encode()),
    "letters of errors": lambda rng: "".join(
        (lambda text: rng.sample(text, len(text)))(rng.choice(ERRORS))
    ).encode(),
    "words of lines of errors": lambda rng: "\n".join(
        _shuffled(line, rng) for line in rng.choices(ERROR_LINES, k=30)
    ).encode(),
    "words of errors": lambda rng: _shuffled("\n".join(rng.sample(ERRORS, 5)), rng).encode(),
    "lines of fine logs": lambda rng: "\n".join(rng.choices(FINE_LINES, k=100)).encode(),
    "cut fine logs": lambda rng: _cut(rng.choice(FINE_LINES), rng).encode(),
    "UTF-16": lambda rng: "".join(map(chr, rng.choices(range(32, 0xD7FF), k=9000))).encode(
        "utf-16"
    ),
}


@pytest.mark.parametrize("kind", EMPTY_OF_EVIDENCE)
def test_no_cause_is_listed_where_there_is_no_evidence(kind: str) -> None:
    rng = random.Random(20)
    for _ in range(25):
        answer = explain(text_of(EMPTY_OF_EVIDENCE[kind](rng)))
        assert all(match.confidence <= LISTED for match in answer.matches), answer.matches


def test_few_logs_whose_words_are_shuffled_name_a_cause() -> None:
    """Not none: in seven words, the name of an error is all that was in the message, too."""
    rng = random.Random(1)
    shuffled = [_shuffled(rng.choice(ERRORS), rng) for _ in range(300)]
    named = [text for text in shuffled if any(m.confidence > LISTED for m in explain(text).matches)]
    assert len(named) <= 15


def test_a_bracket_closed_before_it_is_opened_is_out_of_order() -> None:
    line = "RuntimeError: CUDA error: out of memory (at device.cc:42)"
    assert explain(line).cause is not None
    assert explain(line.replace("(at device.cc:42)", "device.cc:42) at (")).cause is None


@pytest.mark.parametrize(
    "words",
    [
        "### Is this a duplicate?\n\nwith expansion:\n  0 (no error)",
        "### Steps To Reproduce\n\nIt fails with and without the layer.",
        "Is there a way to do this in Python? The kernel needs to have more memory than is there.",
        "e.g. by linking it once\nCrashes When You Click Anything",
        "    except ValueError:\n        raise\n"
        + "[WARNING]: Skipping copy. File already exists\n" * 6,
    ],
)
def test_words_as_people_write_them_are_in_order(words: str) -> None:
    cause = explain(f"{words}\nCUDA error: too many resources requested for launch").cause
    assert cause and cause.cause == "launch_out_of_resources"


def test_a_program_file_has_no_cause() -> None:
    program = Path(sys.executable).resolve().read_bytes()[:8_000_000]
    assert explain(text_of(program)).matches == ()


def test_cut_and_joined_logs_are_read() -> None:
    rng = random.Random(21)
    for _ in range(100):
        joined = b"\n".join(
            _cut(rng.choice(ERRORS), rng).encode() + rng.randbytes(rng.randrange(3000))
            for _ in range(5)
        )
        assert all(0 <= match.confidence <= 1 for match in explain(text_of(joined)).matches)


def test_error_after_binary_data_is_found() -> None:
    log = random.Random(22).randbytes(9000) + b"\n\nCUDA error: out of memory\n"
    cause = explain(text_of(log) + "step 1 of 10\n" * 4000).cause
    assert cause is not None
    assert cause.cause == "gpu_out_of_memory"


@pytest.mark.parametrize(
    "line",
    [
        "watchdog_timeout=300",
        "  --nccl-timeout 600, Namespace(watchdog_timeout=300, lr=0.1, out_of_memory='skip', n=3)",
        "torch==2.4.0+cpu",
        "torch                    2.4.0+cpu    pypi_0    pypi",
        "NCCL_DEBUG=INFO",
        "systemd[1]: ollama.service: Main process exited, code=killed, status=9/KILL",
        "INFO: if you run out of memory, lower the batch size",
        "To avoid CUDA out of memory, set max_split_size_mb",
        "ROCm: Disabled\nROCM Version : Could not collect\nMIOpen runtime version : N/A",
    ],
)
def test_settings_and_advice_name_nothing(line: str) -> None:
    assert explain(line).cause is None


def test_wrapped_kernel_message_is_read_as_one() -> None:
    text = (
        "kernel: NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:1180)\n"
        "kernel: NVRM: installed in this system is not supported by the\n"
        "kernel: NVRM: NVIDIA 495.44 driver release.\nkernel: end"
    )
    answer = explain(text)
    assert answer.cause is not None
    assert answer.cause.cause == "gpu_unsupported_by_driver"
    assert answer.lines_read == 4


def test_large_log_keeps_its_error_and_its_line_numbers() -> None:
    steps = [f"step {n} loss 0.{n}" for n in range(120_000)]
    steps[70_000] = "RuntimeError: CUDA error: out of memory"
    text = "\n".join(steps)
    answer = explain(text)
    assert answer.cause is not None
    assert answer.cause.evidence[0].line == 70_001
    assert answer.lines_read == 120_000


@pytest.mark.parametrize("filler", ["words", "one line", "line feeds", "bytes"])
def test_what_is_searched_of_a_large_log_is_bounded(filler: str) -> None:
    rng = random.Random(23)
    letters = [
        rng.randbytes(8).translate(bytes(97 + n % 26 for n in range(256))) for _ in range(999)
    ]
    content = {
        "words": b"\n".join(b" ".join(rng.choices(letters, k=9)) for _ in range(60_000)),
        "one line": b"a" * 4_000_000,
        "line feeds": b"\n" * 4_000_000,
        "bytes": rng.randbytes(4_000_000),
    }[filler]
    left = reduced(text_of(content))
    assert len(left.replace("\n", "")) <= KEPT_BYTES
    assert left.count("\n") == text_of(content).count("\n")

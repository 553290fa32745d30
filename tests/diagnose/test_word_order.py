"""The order of words is known by neighbours learned from reports, here from earlier ones."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from gpuforge.diagnose import word_order

from .test_fresh_reports import CASES
from .word_order_table import build_table, texts

TABLE = word_order.TABLE
LEARNED = [case["text"] for case in CASES if int(case["id"][1:].split("-")[0]) < 24]
UNSEEN = [case["text"] for case in CASES if int(case["id"][1:].split("-")[0]) >= 24]


@pytest.fixture(scope="module", autouse=True)
def learned_from_earlier_rounds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        table = tmp_path_factory.mktemp("order") / "table.txt"
        table.write_text(build_table(LEARNED), encoding="utf-8")
        patch.setattr(word_order, "TABLE", table)
        _forget()
        yield
    _forget()


def _forget() -> None:
    word_order._table.cache_clear()
    word_order.is_disordered.cache_clear()


def _shuffled(text: str, rng: random.Random) -> str:
    words = text.split()
    return " ".join(rng.sample(words, len(words)))


def test_unseen_reports_are_in_order() -> None:
    disordered = [text for text in UNSEEN if word_order.is_disordered(text)]
    assert len(disordered) <= len(UNSEEN) / 200


def test_their_words_are_not_when_shuffled() -> None:
    rng = random.Random(5)
    found = [word_order.is_disordered(_shuffled(text, rng)) for text in UNSEEN]
    assert sum(found) > 0.95 * len(UNSEEN)


def test_nor_are_many_of_their_lines() -> None:
    rng = random.Random(6)
    lines = [line for text in UNSEEN for line in text.splitlines() if 8 <= len(line.split()) < 40]
    chosen = rng.sample(lines, 1000)
    assert sum(map(word_order.is_disordered, chosen)) <= 5
    assert sum(word_order.is_disordered(_shuffled(line, rng)) for line in chosen) > 400


@pytest.mark.parametrize(
    "text",
    [
        # Reports from which an error was not taken because of one or two unusual neighbours.
        "CUDA Runtime Error: the provided PTX was compiled with an unsupported toolchain.\n\n"
        "CUDA Runtime Error: the provided PTX was compiled with an unsupported toolchain. "
        "The prompt appears at diffvg/scene.cpp:35\uff0cHow to solve it?",
        "Win7+ Cuda11.5+ Vs2019 CMake Error: No CUDA toolset found\n\nAfter I installed latest "
        "CUDA 11.5 comes with . \nand  the error line is located in a file",
        "dkms: running auto installation service for kernel 4.11:Error! echo\n"
        "Your kernel headers for kernel 4.11 cannot be found at\n"
        "/lib/modules/4.11/build or /lib/modules/4.11/source.",
    ],
)
def test_unusual_neighbours_alone_are_no_disorder(text: str) -> None:
    assert not word_order.is_disordered(text)


def test_lines_that_resemble_each_other_count_once() -> None:
    line = "epoch {}, minibatch 120/120, test error of best model 85.0 %"
    assert not word_order.is_disordered("\n".join(line.format(n) for n in range(400)))


def test_a_word_alone_has_no_order() -> None:
    assert not word_order.is_disordered("\n".join(["of", "the", "cudaErrorIllegalAddress"] * 50))


def test_the_table_is_that_of_the_reports() -> None:
    """After a change to the reports, run ``python tests/diagnose/word_order_table.py``."""
    assert TABLE.read_text(encoding="utf-8") == build_table(texts())

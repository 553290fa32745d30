"""Extensions that lack symbols of a framework; libstdc++ stands for PyTorch's libraries."""

from __future__ import annotations

import re
import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import gpuforge.diagnose.checks.extension_builds as check
from gpuforge.diagnose.run import run_checks
from gpuforge.diagnose.shared_library import Needs, Offered, asked_of, hash_of

from .environments import Environment, make_wheel

LIKE = re.compile(rb"_ZSt|_ZNSt")
EXTENSION = next(Path(np.__file__).parent.glob("fft/_pocketfft_umath*.so"), Path())
FOUND = [p for p in Path("/usr/lib").rglob("lib[sz]*.so.[16]") if "32" not in str(p.parent)]
LIBRARIES = {p.name.partition(".")[0]: p for p in FOUND}

pytestmark = pytest.mark.skipif(
    not asked_of(str(EXTENSION), LIKE) or not {"libstdc++", "libz"} <= LIBRARIES.keys(),
    reason="this NumPy needs nothing of libstdc++, or there is none",
)


def named(
    environment: Environment, library: str, requires: str, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    pattern = (re.compile(r"torch/lib/libc10\.so"), LIKE)
    monkeypatch.setattr(check, "FRAMEWORKS", {"torch": pattern})
    shelf = environment.prefix.parent
    environment.add(make_wheel(shelf, "torch", "2.9.0", files={"torch/lib/libc10.so": ""}))
    environment.add(make_wheel(shelf, "mine", "1.0", (requires,), {"mine/_C.so": ""}))
    shutil.copy(LIBRARIES[library], environment.packages / "torch" / "lib" / "libc10.so")
    shutil.copy(EXTENSION, environment.packages / "mine" / "_C.so")
    return [f.message for f in run_checks("extension_builds").having("error", "unknown")]


def test_symbols_are_found_by_their_hash() -> None:
    with closing(Offered(str(LIBRARIES["libstdc++"]))) as offered:
        for name in asked_of(str(EXTENSION), LIKE):
            assert offered.has(name, hash_of(name)), name
        assert not offered.has(b"_ZSt4gone", hash_of(b"_ZSt4gone"))


def test_an_extension_without_its_symbols_is_named(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    (message,) = named(environment, "libz", "torch", monkeypatch)
    assert message.startswith("mine 1.0 was built for another torch than 2.9.0")


def test_an_extension_that_finds_them_is_not(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not named(environment, "libstdc++", "torch>=2", monkeypatch)


def test_a_package_that_requires_this_version_is_not_looked_at(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not named(environment, "libz", "torch==2.9.0", monkeypatch)


def test_an_extension_for_gpus_beside_a_torch_for_the_cpu_is_named_whatever_it_asks_first(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = Needs(("libcudart.so.13", "libtorch_cuda.so"))
    monkeypatch.setattr(check, "needs_of", lambda path: wanted)
    monkeypatch.setattr(check, "asked_of", lambda path, like: [])  # as with a stable interface
    (message,) = named(environment, "libz", "torch", monkeypatch)
    assert message.endswith("than 2.9.0: its compiled part cannot be loaded")
    (finding,) = run_checks("extension_builds").having("error")
    assert finding.evidence[-1] == "it needs libtorch_cuda.so, of a build for GPUs"
    wanted = Needs(("libcudart.so.13",))
    assert not named(environment, "libz", "torch", monkeypatch)

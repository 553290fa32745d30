"""Short programs are called as written: nothing that places calls is loaded for them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuforge import trace
from gpuforge.runtime import prelude

HEAD = """
import sys
import numpy as np
import gpuforge as gf

@gf.offload
def double(x):
    return x * 2

@gf.offload
def spun(x):
    return sum(range(300_000)) and x

def loaded():
    return "gpuforge.runtime.session" in sys.modules

x = np.arange(4.0)
"""


def run(folder: Path, code: str, **variables: str) -> list[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("GPUFORGE_")}
    done = subprocess.run(
        [sys.executable, "-c", HEAD + code], capture_output=True, text=True, check=False,
        cwd=folder, env=clean | variables,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.skipif(sys.platform != "linux", reason="settings are looked for at once elsewhere")
def test_short_programs_load_nothing_and_are_counted(tmp_path: Path) -> None:
    code = """
for _ in range(1000):
    double(x)
print(loaded(), double.stats().counts["numpy"].calls, loaded())
double(x)
print(double.stats().counts["numpy"].calls)
"""
    assert run(tmp_path, code) == ["False", "1000", "True", "1001"]


@pytest.mark.skipif(sys.platform != "linux", reason="settings are looked for at once elsewhere")
def test_a_program_of_short_calls_is_seen_after_a_while(tmp_path: Path) -> None:
    code = """
from gpuforge.runtime import prelude
prelude.SEEN_SECONDS = prelude.SEEN_EVERY_SECONDS = 0.0

def seen():
    from gpuforge.published import read_all
    [one] = read_all()
    return [(row.name, row.calls) for row in one.backends]

for _ in range(999):
    double(x)
[(name, calls)] = seen()
print(name, 900 < calls <= 999, loaded(), double.stats().counts["numpy"].calls, *seen()[0])
"""
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    told = run(tmp_path, code, XDG_RUNTIME_DIR=str(runtime))
    assert told == ["numpy", "True", "False", "999", "numpy", "999"]


@pytest.mark.skipif(sys.platform != "linux", reason="settings are looked for at once elsewhere")
def test_of_many_short_calls_in_a_profile_most_are_counted(tmp_path: Path) -> None:
    code = """
from gpuforge import trace
trace.enable()
for _ in range(1000):
    double(x)
kept = trace.drain()
(one,) = kept.repeated
print(loaded(), len(kept.spans), one.times, *sorted(one.span.attributes.items()))
trace.enable(False)
trace.drain()
trace.enable()
double(x)
print(len(trace.drain().spans), double.stats().counts["numpy"].calls)
"""
    said = "('backend', 'numpy') ('file', '<string>') ('function', '__main__.double') ('line', 6)"
    kept = trace.REPEATS_KEPT
    expected = f"False {kept} {1000 - kept} {said} 1 1001"
    assert run(tmp_path, code) == expected.split()


def test_calls_that_last_are_placed(tmp_path: Path) -> None:
    code = """
calls = 0
while not loaded() and calls < 2000:
    spun(x)
    calls += 1
print(calls < 2000, spun.stats().counts["numpy"].calls == calls)
"""
    assert run(tmp_path, code) == ["True", "True"]


def test_where_no_thread_can_be_started_the_next_call_is_placed(tmp_path: Path) -> None:
    code = """
import threading
from gpuforge.runtime.prelude import prelude

def refuse(thread):
    raise RuntimeError("can't start new thread")
threading.Thread.start = refuse
while not prelude.over:
    assert spun(x) is x
print(loaded())
assert spun(x) is x
print(loaded())
"""
    assert run(tmp_path, code) == ["False", "True"]


def test_a_fork_while_modules_are_imported_waits_for_them(tmp_path: Path) -> None:
    code = """
import os
from gpuforge.runtime.prelude import prelude

while prelude._loading is None:
    spun(x)
child = os.fork()
assert prelude.over
assert spun(x) is x
if not child:
    os._exit(0)
print(os.waitpid(child, 0)[1], loaded())
"""
    assert run(tmp_path, code) == ["0", "True"]


def test_calls_within_calls_do_not_end_it_before_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.2
    monkeypatch.setattr(prelude, "perf_counter", lambda: now)
    early = prelude.Prelude()
    for _ in range(3):  # three functions, each of which calls the next
        early.spend(0.2)
    assert not early.over
    now = 0.35
    early.spend(0.15)
    assert early.over


@pytest.mark.parametrize(
    ("code", "variables"),
    [("gf.offload(backend='numpy')(lambda x: x)(x)", {}),
     ("with gf.session(history=False): double(x)", {}),
     ("double.explain(x)", {}),
     ("double(x)", {"GPUFORGE_MIN_ELEMENTS": "3"})],
)  # fmt: skip
def test_a_choice_of_the_users_ends_it(
    tmp_path: Path, code: str, variables: dict[str, str]
) -> None:
    assert run(tmp_path, f"{code}\nprint(loaded())", **variables) == ["True"]


@pytest.mark.parametrize(
    ("name", "text"),
    [("gpuforge.toml", ""), ("pyproject.toml", "[tool.gpuforge]\nmin_elements = 3\n")],
)
def test_a_projects_settings_end_it(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    inner = tmp_path / "inner"
    inner.mkdir()
    assert run(inner, "double(x)\nprint(loaded())") == ["True"]


def test_what_a_function_raises_is_raised(tmp_path: Path) -> None:
    code = """
@gf.offload
def fails(x):
    raise KeyError("mine")
try:
    fails(x)
except KeyError as error:
    print(error.args[0], fails.stats().counts["numpy"].calls)
"""
    assert run(tmp_path, code) == ["mine", "1"]


def test_a_session_counts_at_once_for_functions_called_before(tmp_path: Path) -> None:
    code = """
for _ in range(1000):
    double(x)
with gf.session(history=False, min_elements=3):
    double(x)
    print(len(double.stats().kinds), double.stats().counts["numpy"].calls)
"""
    assert run(tmp_path, code) == ["1", "1001"]  # the one call was considered, not made as it came


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_forked_after_the_first_calls_uses_numpy_only(tmp_path: Path) -> None:
    code = """
import os
from gpuforge.runtime.prelude import prelude
double(x)
child = os.fork()
if child == 0:
    double.explain(x)
    from gpuforge.runtime.session import default_session
    os._exit(0 if default_session().forked else 1)
print(os.waitpid(child, 0)[1], prelude.forked)
"""
    assert run(tmp_path, code) == ["0", "False"]


def test_calls_of_threads_are_counted(tmp_path: Path) -> None:
    code = """
import threading
def work():
    for _ in range(5000):
        double(x)
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(double.stats().counts["numpy"].calls)
"""
    assert run(tmp_path, code) == ["20000"]

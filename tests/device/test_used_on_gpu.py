"""What a program meets on a real GPU: full memory, workers, forks, batches, profiles, readings."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextvars import copy_context
from time import perf_counter, sleep
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge.facts import known
from gpuforge.profiler.breakdown import breakdown
from gpuforge.profiler.model import DEVICE as BUSY
from gpuforge.runtime.backends import is_on

from ..runtime.conftest import places
from .conftest import DEVICE

pytestmark = pytest.mark.gpu
MIB = 1 << 20


def smooth(x: Any) -> Any:
    return np.sqrt(x * x + 1) - x


def product(x: Any) -> Any:
    return x @ x


@pytest.fixture
def torch() -> Any:
    found = pytest.importorskip("torch", reason="torch is not installed")
    if not found.cuda.is_available():
        pytest.skip("no CUDA device that PyTorch can use")
    return found


def test_a_full_device_gives_the_result_and_serves_again_when_there_is_room(
    gpu: Any, torch: Any
) -> None:
    x = np.random.default_rng(0).random(256 * MIB // 4, dtype=np.float32)
    with gf.session(history=False):
        placed = gf.offload(backend=gpu.name)(smooth)
        placed(x[:1000])
        assert places(placed) == {gpu.name: 1}
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info()
        held = torch.empty(free - 300 * MIB, dtype=torch.uint8, device="cuda")
        found = [placed(x)]  # JAX waits 10 s for memory, twice
        del held
        torch.cuda.empty_cache()
        assert places(placed) == {gpu.name: 1, "numpy": 1}, "the device was not full"
        found.append(placed(x))
        counts = places(placed)
    for one in found:
        np.testing.assert_allclose(one, smooth(x), rtol=1e-5, atol=1e-6)
    assert counts[gpu.name] == 2, counts


def test_a_free_call_with_no_room_on_the_device_gives_the_result(torch: Any) -> None:
    x = np.random.default_rng(0).random((3000, 3000), dtype=np.float32)
    with gf.session(history=False, explore_share=1):
        placed = gf.offload(product)
        for _ in range(30):
            placed(x)
        assert any(is_on(name, "gpu") for name in places(placed)), places(placed)
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info()
        held = torch.empty(free - 64 * MIB, dtype=torch.uint8, device="cuda")
        wide = np.random.default_rng(0).random((5000, 5000), dtype=np.float32)
        found = [placed(wide) for _ in range(3)]
        del held
    for one in found:
        np.testing.assert_allclose(one, wide @ wide, rtol=1e-4)


def test_work_in_a_worker_process_on_the_device(gpu: Any) -> None:
    x = np.random.default_rng(0).random((600, 700), dtype=np.float32)
    with gf.session(history=False):
        placed = gf.offload(backend=gpu.name, isolate=True)(smooth)
        found = [placed(x) for _ in range(3)]
        assert [name.endswith(":worker") for name in places(placed)] == [True]
    for one in found:
        np.testing.assert_allclose(one, smooth(x), rtol=1e-5, atol=1e-6)


def test_a_worker_that_is_killed_on_the_device_costs_only_time(gpu: Any) -> None:
    x = np.random.default_rng(0).random((600, 700), dtype=np.float32)
    with gf.session(history=False) as session:
        placed = gf.offload(backend=gpu.name, isolate=True)(smooth)
        placed(x)
        session.find(f"{gpu.name}:worker").home._worker.process.kill()
        for _ in range(3):
            np.testing.assert_allclose(placed(x), smooth(x), rtol=1e-5, atol=1e-6)


FORKING = """
import multiprocessing
import numpy as np
import gpuforge as gf

x = np.random.default_rng(0).random((300, 300))
placed = gf.offload(backend="torch:cuda", fallback=True)(lambda x: x @ x)

def in_child(x):
    found = placed(x)
    return found, sorted(placed.stats().counts)

expected = placed(x)
assert sorted(placed.stats().counts) == ["torch:cuda:0"]
with multiprocessing.get_context("fork").Pool(2) as pool:
    found, where = pool.apply_async(in_child, (x,)).get(timeout=60)
np.testing.assert_allclose(found, expected, rtol=1e-12)
assert "numpy" in where, where
assert np.array_equal(placed(x), expected)
"""


def test_a_forked_child_computes_with_numpy(torch: Any) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORKING], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def test_batches_of_a_map_run_there(gpu: Any) -> None:
    items = list(np.random.default_rng(0).random((500, 32, 32), dtype=np.float32))
    with gf.session(history=False):
        placed = gf.offload(backend=gpu.name)(product)
        found = list(placed.map(items, batch=100))
        counts = places(placed)
    for one, item in zip(found, items, strict=True):
        np.testing.assert_allclose(one, item @ item, rtol=1e-5)
    assert set(counts) == {gpu.name}, counts


def test_submitted_calls_run_there(gpu: Any) -> None:
    items = list(np.random.default_rng(0).random((50, 64, 64), dtype=np.float32))
    with gf.session(history=False):
        placed = gf.offload(backend=gpu.name)(product)
        futures = [placed.submit(item, priority=n % 3) for n, item in enumerate(items)]
        for future, item in zip(futures, items, strict=True):
            np.testing.assert_allclose(future.result(timeout=60), item @ item, rtol=1e-5)
        assert gpu.name in places(placed)


def test_several_threads_use_the_device_at_once(gpu: Any) -> None:
    rng = np.random.default_rng(0)
    items = [rng.random((200 + 10 * n, 300), dtype=np.float32) for n in range(8)]
    wrong: list[int] = []
    with gf.session(history=False):
        placed = gf.offload(backend=gpu.name)(smooth)

        def work(n: int) -> None:
            found = [placed(items[n]) for _ in range(20)]
            if not np.allclose(found, smooth(items[n]), rtol=1e-5, atol=1e-6):
                wrong.append(n)

        threads = [
            threading.Thread(target=copy_context().run, args=(work, number)) for number in range(8)
        ]  # a session is in force in the thread that opened it
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert places(placed) == {gpu.name: 160}
    assert not wrong


def test_the_profile_tells_the_devices_time_as_its_own_events_do(torch: Any) -> None:
    x = np.random.default_rng(0).random((4096, 4096), dtype=np.float32)

    def repeated(x: Any) -> Any:
        for _ in range(60):
            x = x @ x * np.float32(1 / 2048)
        return x

    place = "cuda" if DEVICE == "gpu" else "cpu"
    there = torch.from_numpy(x).to(place)

    def own_ns() -> float:
        begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begun.record()
        repeated(there)
        ended.record()
        torch.cuda.synchronize()
        return float(begun.elapsed_time(ended) * 1e6)

    with gf.session(history=False):
        placed = gf.offload(backend="torch", device=DEVICE, numerics="relaxed")(repeated)
        for _ in range(3):
            placed(x)
        own_ns()
        before = own_ns()
        with gf.profile() as p:
            start = perf_counter()
            placed(x)
            wall = (perf_counter() - start) * 1e9
        after = own_ns()
    parts = {p.profile.lanes[part.lane].name: part for part in breakdown(p.profile)}
    (name,) = [name for name in parts if name.endswith(" compute")]
    busy = parts[name].label_ns[BUSY]
    assert 0.85 * min(before, after) < busy < 1.15 * max(before, after), (before, busy, after)
    main = parts["MainThread"]
    assert sum(main.label_ns) + main.unexplained_ns == pytest.approx(wall, rel=0.05, abs=2e6)
    moved = sum(span.bytes for span in p.profile.spans if "direction" in span.attributes)
    assert 2 * x.nbytes <= moved < 2 * x.nbytes + MIB  # constants are moved too


def test_live_readings_show_the_work(gpu: Any) -> None:
    x = np.random.default_rng(0).random((3000, 3000), dtype=np.float32)
    seen = []
    with gf.session(history=False):
        placed = gf.offload(backend=gpu.name, numerics="relaxed")(
            lambda x: x @ x @ x @ x @ x @ x @ x @ x
        )
        placed(x)
        done = threading.Event()

        def work() -> None:
            while not done.is_set():
                placed(x)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            for _ in range(10):
                sleep(0.3)
                seen += gf.metrics().devices
        finally:
            done.set()
            thread.join()
        last = gf.metrics().devices[0]
    assert max(known(one.utilization_ratio) or 0 for one in seen) > 0.3, seen[-1]
    assert (known(last.memory_used_bytes) or 0) > 100 * MIB
    assert (known(last.reading.power_watts) or 0) > 20
    print(gpu.name, "own memory:", last.own_memory_bytes, "calls:", last.calls)


def test_a_large_product_would_benefit_and_a_tiny_one_would_not(torch: Any) -> None:
    rng = np.random.default_rng(0)
    with gf.session(history=False):
        placed = gf.offload(product)
        assert not gf.would_benefit(placed, rng.random((8, 8), dtype=np.float32))
        large = gf.would_benefit(placed, rng.random((4000, 4000), dtype=np.float32))
    assert large and is_on(large.backend, "gpu"), str(large)


def test_warming_up_prepares_the_device(gpu: Any) -> None:
    library = gpu.name.split(":")[0]
    code = (
        "import gpuforge as gf, numpy as np\n"
        f"made = gf.warmup([{library!r}], wait=True)\nprint(made.stats)\n"
        f"assert made.stats[{library!r}].state == 'open'\n"
        "from time import perf_counter\nstart = perf_counter()\n"
        f"y = gf.offload(backend={gpu.name!r})(lambda x: x + 1)(np.ones(1000, np.float32))\n"
        "print('first call', perf_counter() - start)\nassert (y == 2).all()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    print(done.stdout)
    assert done.returncode == 0, done.stderr

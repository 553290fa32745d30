"""Maps and calls on real Dask clusters of processes: equal to calls made here, or a clear error."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import operator
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge.errors import (
    BackendUnavailable,
    ClusterUnavailable,
    EnvironmentMismatch,
    InvalidSettings,
    TaskCancelled,
    TaskTimeout,
    WorkerDied,
    WorkloadError,
)

distributed = pytest.importorskip("distributed", reason="distributed is not installed")
array = pytest.importorskip("dask.array", reason="dask is not installed")
from gpuforge.runtime import context  # noqa: E402
from gpuforge.runtime.executor.cluster import Cluster, work  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Sending large graph")
LONG = 60.0


@gf.offload
def wave(x: Any) -> Any:
    return np.sin(x) * 2.0 + x


@gf.offload
def where(_: int) -> int:
    return os.getpid()


def divmod_of(x: int, y: int) -> tuple[int, int]:
    return divmod(x, y)


def failing(x: int) -> int:
    if x % 4 == 3:
        raise ValueError(f"no {x}")
    return x * 10


def doubled_in_place(x: Any) -> Any:
    x *= 2
    return x


class Closed(Exception):
    """Cannot be pickled: it takes two arguments and keeps one."""

    def __init__(self, text: str, lock: Any) -> None:
        super().__init__(text)
        self.lock = lock


def raises_closed(x: Any) -> Any:
    raise Closed("it is closed", threading.Lock())


def gives_a_lock(x: int) -> Any:
    return threading.Lock() if x == 1 else x


def process(_: Any = None) -> int:
    return os.getpid()


def slowly(x: float) -> float:
    threading.Event().wait(x)
    return x


@pytest.fixture(autouse=True)
def kept_in_the_tests_folder(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that are killed leave their folders."""
    monkeypatch.setenv("DASK_TEMPORARY_DIRECTORY", str(own_home))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    home = tmp_path_factory.mktemp("workers")
    with pytest.MonkeyPatch.context() as patched:
        for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "TMPDIR"):
            patched.setenv(name, str(home))
        made = gf.cluster(local=2, timeout=LONG)
    yield made
    made.close()


@contextlib.contextmanager
def scheduler() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a scheduler as a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    with dask(*command) as running:
        yield f"tcp://127.0.0.1:{port}", running


@contextlib.contextmanager
def dask(*arguments: str, python: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """Run a command of Dask's, killed at the end."""
    code = f"{python}\nimport sys; from dask.__main__ import main; main()"
    running = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield running
    finally:
        running.kill()
        running.wait()


def worker(address: str, *arguments: str, python: str = "") -> Any:
    """Run a worker as a process of its own, without a nanny that would start it again."""
    where = ["--no-nanny", "--no-dashboard", "--nthreads", "1"]
    return dask("worker", address, *where, *arguments, python=python)


def client_of(address: str, workers: int) -> Any:
    made = distributed.Client(address, timeout=LONG, set_as_default=False)
    if workers:
        made.wait_for_workers(workers, timeout=LONG)
    return made


class TestMap:
    def test_a_list_gives_the_list_of_calls_made_here(self, cluster: Cluster) -> None:
        items = [np.arange(5.0) + i for i in range(50)]
        found = cluster.map(wave, items)
        assert isinstance(found, list)
        np.testing.assert_array_equal(found, [wave(x) for x in items])
        assert all(x.flags.writeable for x in found)

    def test_an_array_is_a_collection_and_nothing_gives_nothing(self, cluster: Cluster) -> None:
        assert cluster.map(operator.neg, np.arange(3)) == [0, -1, -2]
        assert cluster.map(wave, []) == []
        assert list(cluster.map(wave, iter([]))) == []

    def test_an_iterator_is_taken_lazily_and_in_order(self, cluster: Cluster) -> None:
        taken: list[int] = []

        def items() -> Iterator[int]:
            for number in range(10**6):
                taken.append(number)
                yield number

        found = cluster.map(operator.neg, items())
        assert not taken
        assert [next(found) for _ in range(20)] == [-n for n in range(20)]
        assert 20 <= len(taken) < 10**6
        found.close()

    def test_lambdas_closures_partials_and_methods_of_here_go_along(self, cluster: Cluster) -> None:
        three, large = 3, np.arange(100_000.0)
        assert cluster.map(lambda x: x + three, [1, 2]) == [4, 5]
        assert cluster.map(gf.offload(lambda x: x + three), [1, 2]) == [4, 5]
        assert cluster.map(functools.partial(pow, 2), [1, 3]) == [2, 8]
        bound = functools.partial(np.dot, large)  # larger than what is sent with each chunk
        assert cluster.map(bound, [large] * 3) == [large @ large] * 3
        assert cluster.map(bound, [large]) == [large @ large]

    def test_workers_write_into_copies(self, cluster: Cluster) -> None:
        items = [np.ones(3), np.ones(3)]
        assert [x.tolist() for x in cluster.map(doubled_in_place, items)] == [[2.0] * 3] * 2
        assert items[0].tolist() == [1.0] * 3

    def test_both_workers_take_part_in_processes_of_their_own(self, cluster: Cluster) -> None:
        found = set(cluster.map(lambda x: (slowly(x), os.getpid())[1], [0.05] * 20))
        assert len(found) == 2
        assert os.getpid() not in found

    def test_many_items_take_few_tasks(self, cluster: Cluster) -> None:
        sent = []
        submit = cluster.client.submit
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(
                cluster.client, "submit", lambda *a, **k: sent.append(a) or submit(*a, **k)
            )
            assert sum(cluster.map(abs, range(20_000))) == sum(range(20_000))
        assert len(sent) < 500

    @pytest.mark.parametrize("lazy", [False, True])
    def test_an_error_stands_at_its_place_and_the_others_finish(
        self, cluster: Cluster, lazy: bool
    ) -> None:
        items: Any = iter(range(9)) if lazy else range(9)
        found = list(cluster.map(failing, items, on_error="return"))
        assert [x for x in found if isinstance(x, int)] == [0, 10, 20, 40, 50, 60, 80]
        assert [str(found[3]), str(found[7])] == ["no 3", "no 7"]
        assert type(found[3]) is ValueError

    def test_the_first_error_is_raised_with_the_line_it_came_from(self, cluster: Cluster) -> None:
        with pytest.raises(ValueError, match="no 3") as caught:
            cluster.map(failing, range(20))
        assert caught.traceback[-1].name == "failing"
        found = cluster.map(failing, iter(range(20)))
        assert [next(found) for _ in range(3)] == [0, 10, 20]
        with pytest.raises(ValueError, match="no 3"):
            next(found)

    def test_what_cannot_travel_says_so_at_its_place(self, cluster: Cluster) -> None:
        there, back = [1, threading.Lock(), 2], [0, 1, 2]
        found = cluster.map(repr, there, on_error="return")
        assert (found[0], type(found[1]), found[2]) == ("1", TypeError, "2")
        found = cluster.map(gives_a_lock, back, on_error="return")
        assert (found[0], type(found[1]), found[2]) == (0, WorkloadError, 2)
        assert "lock, cannot be sent back" in str(found[1])
        (found,) = cluster.map(raises_closed, [1], on_error="return")
        assert type(found) is RuntimeError
        assert "Closed: it is closed" in str(found)

    @pytest.mark.parametrize("ending", [SystemExit, KeyboardInterrupt])
    @pytest.mark.parametrize("offloaded", [False, True])
    def test_what_would_end_a_worker_ends_the_call(
        self, cluster: Cluster, ending: type[BaseException], offloaded: bool
    ) -> None:
        def ends(x: Any) -> Any:
            raise ending(3)

        function = gf.offload(ends, pure=False) if offloaded else ends
        before = set(cluster.client.run(os.getpid).values())
        with pytest.raises(ending):
            cluster.map(function, [1])
        assert type(cluster.submit(function, 1).exception(LONG)) is ending
        assert set(cluster.client.run(os.getpid).values()) == before

    def test_an_exception_that_cannot_travel_is_told(self, cluster: Cluster) -> None:
        with pytest.raises(RuntimeError, match="Closed: it is closed"):
            cluster.submit(raises_closed, 1).result(LONG)

    @pytest.mark.parametrize("items", [None, 3, "text", np.array(1.0)])
    def test_what_cannot_be_mapped_over_is_refused(self, cluster: Cluster, items: Any) -> None:
        with pytest.raises(WorkloadError, match="the map "):
            cluster.map(abs, items)

    def test_a_generator_that_raises_does_so_behind_what_it_gave(self, cluster: Cluster) -> None:
        def items() -> Iterator[int]:
            yield from range(3)
            raise KeyError("no more")

        found = cluster.map(operator.neg, items())
        assert [next(found) for _ in range(3)] == [0, -1, -2]
        with pytest.raises(KeyError, match="no more"):
            next(found)

    def test_a_timeout_says_how_far_it_came(self, cluster: Cluster) -> None:
        items = [0.0, 0.0, 3.0, 3.0, 3.0]
        with pytest.raises(TaskTimeout, match="of 5 items of the map had finished"):
            cluster.map(slowly, items, timeout=0.5)
        found = cluster.map(slowly, [0.0, 0.0, *[4.0] * 8], timeout=8.0, on_error="return")
        assert len(found) == 10
        assert found[:2] == [0.0, 0.0]
        assert isinstance(found[-1], TaskTimeout)

    def test_retries_are_dasks(self, cluster: Cluster, tmp_path: Path) -> None:
        def at_the_third(name: str) -> int:
            with (tmp_path / name).open("a") as file:
                file.write("x")
            times = len((tmp_path / name).read_text())
            if times < 3:
                raise OSError(f"{times} times")
            return times

        assert cluster.map(at_the_third, ["a", "b"], retries=3) == [3, 3]
        with pytest.raises(OSError, match="2 times"):
            cluster.map(at_the_third, ["c"], retries=1)
        assert cluster.submit(at_the_third, "d", retries=2).result(LONG) == 3


class TestSubmit:
    def test_a_future_of_pythons_own(self, cluster: Cluster) -> None:
        futures = [cluster.submit(wave, np.full(3, i)) for i in range(4)]
        assert not wait(futures, LONG).not_done
        np.testing.assert_array_equal(
            [future.result() for future in futures], [wave(np.full(3, i)) for i in range(4)]
        )
        assert cluster.submit(lambda a, *, b: a - b, 5, b=2).result(LONG) == 3
        with pytest.raises(ValueError, match="no 3") as caught:
            cluster.submit(failing, 3).result(LONG)
        assert caught.traceback[-1].name == "failing"

    def test_a_result_stays_on_the_cluster_where_it_is_an_argument(self, cluster: Cluster) -> None:
        first = cluster.submit(doubled_in_place, np.ones(4))
        assert cluster.submit(np.sum, first).result(LONG) == 8.0

    def test_a_name_a_timeout_and_a_cancellation(self, cluster: Cluster) -> None:
        with pytest.raises(TaskTimeout, match="the nap was not done within"):
            cluster.submit(slowly, 2.0, name="the nap", timeout=0.2).result(LONG)
        future = cluster.submit(slowly, 0.5)
        assert future.cancel()
        with pytest.raises(CancelledError, match="slowly was cancelled") as raised:
            future.result(LONG)
        assert type(raised.value) is TaskCancelled

    def test_resources_and_priorities_reach_dask(self, cluster: Cluster) -> None:
        future = cluster.submit(abs, -1, resources={"GPU": 1})
        with pytest.raises(TimeoutError):  # no worker has one
            future.result(0.3)
        future.cancel()
        seen: dict[str, Any] = {}
        submit = cluster.client.submit
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(
                cluster.client, "submit", lambda *a, **k: seen.update(k) or submit(*a, **k)
            )
            assert cluster.map(abs, [-1], priority=5) == [1]
        assert seen["priority"] == 5

    @pytest.mark.parametrize(
        ("wrong", "text"),
        [
            ({"timeout": -1}, "timeout=-1"),
            ({"timeout": float("nan")}, "timeout=nan"),
            ({"priority": "high"}, "priority='high'"),
            ({"retries": 1.5}, "retries=1.5"),
        ],
    )
    def test_wrong_options_are_refused_at_once(
        self, cluster: Cluster, wrong: dict[str, Any], text: str
    ) -> None:
        with pytest.raises(InvalidSettings, match=text):
            cluster.submit(abs, -1, **wrong)
        with pytest.raises(InvalidSettings, match=text):
            cluster.map(abs, iter([-1]), **wrong)

    def test_a_function_that_workers_cannot_make(
        self, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "only_here.py").write_text("def double(x): return 2 * x\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        import only_here  # type: ignore[import-not-found]

        with pytest.raises(WorkloadError, match="No module named 'only_here'") as caught:
            cluster.map(only_here.double, [1])
        assert "register_pickle_by_value" in caught.value.hint
        with pytest.raises(WorkloadError, match="only_here"):
            cluster.submit(only_here.double, 1).result(LONG)


class TestBlocks:
    def test_dtype_and_chunks_are_found_out_without_a_call(self, cluster: Cluster) -> None:
        calls: list[Any] = []
        x = array.arange(22, chunks=6, dtype="float32").reshape(11, 2)

        def scaled(block: Any) -> Any:
            calls.append(hasattr(block, "_recorder"))
            return np.sqrt(block)[:, :1] * np.float64(2)

        with cluster_in_force(cluster):
            found = cluster.map_blocks(scaled, x)
            assert False not in calls
            assert found.dtype == np.float64
            assert found.chunks == (x.chunks[0], (1,) * len(x.chunks[1]))
            expected = np.sqrt(np.arange(22, dtype="float32").reshape(11, 2))[:, ::2] * np.float64(
                2
            )
            np.testing.assert_allclose(found.compute()[:, :1], expected[:, :1])

    def test_blocks_run_offloaded_on_the_workers(self, cluster: Cluster) -> None:
        x = array.ones((6, 4), chunks=(3, 2))
        with cluster_in_force(cluster):
            found = cluster.map_blocks(gf.offload(lambda a, b: a - b + process() * 0), x, x * 2)
            assert (found.dtype, found.shape) == (x.dtype, x.shape)
            np.testing.assert_array_equal(found.compute(), np.full((6, 4), -1.0))
            pids = cluster.map_blocks(lambda b: b * 0 + process(), x, dtype="int64").compute()
        assert os.getpid() not in pids

    def test_what_cannot_be_found_out_is_asked_for(self, cluster: Cluster) -> None:
        x = array.ones(8, chunks=4)
        with pytest.raises(WorkloadError, match="no array") as caught:
            cluster.map_blocks(lambda b: float(b.sum()), x)
        assert "dtype=" in caught.value.hint
        with pytest.raises(WorkloadError, match="make no grid"):
            cluster.map_blocks(lambda b: b.reshape(2, -1), x)
        unknown = x[x > 0]
        with pytest.raises(WorkloadError, match="is unknown, or differs"):
            cluster.map_blocks(np.sqrt, unknown)
        with pytest.raises(WorkloadError, match="map_blocks takes Dask arrays, not ndarray"):
            cluster.map_blocks(np.sqrt, np.ones(3))


@contextlib.contextmanager
def cluster_in_force(cluster: Cluster) -> Iterator[None]:
    """Let Dask compute there, without closing the cluster behind the block."""
    with cluster.client.as_current():
        yield


def test_the_variables_of_this_process_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = dict(os.environ)
    with gf.cluster(local=1, timeout=LONG) as cluster:
        assert cluster.submit(os.getenv, "OMP_NUM_THREADS").result(LONG) == "1"
        assert dict(os.environ) == before


class TestInside:
    """Inside ``with gf.cluster(...)`` functions map and submit there by themselves."""

    @pytest.fixture(autouse=True)
    def inside(self, cluster: Cluster) -> Iterator[None]:
        token = context.cluster.set(cluster)
        yield
        context.cluster.reset(token)

    def test_maps_run_there(self) -> None:
        assert set(where.map(range(20))).isdisjoint({os.getpid()})
        items = [np.full(3, float(i)) for i in range(50)]
        np.testing.assert_array_equal(wave.map(items), [wave.__wrapped__(x) for x in items])
        pairs = [(1, 2), (3, 4)]
        assert gf.offload(divmod_of).starmap(pairs) == [(0, 1), (0, 3)]
        bad = gf.offload(failing).map(range(4), on_error="return")
        assert [*bad[:3], str(bad[3])] == [0, 10, 20, "no 3"]
        with pytest.raises(InvalidSettings, match="batch="):
            wave.map(items, batch=4)

    def test_tasks_run_there(self) -> None:
        assert where.submit(0, priority=2, timeout=LONG, name="where").result(LONG) != os.getpid()
        with pytest.raises(InvalidSettings, match="memory="):
            where.submit(0, memory="1MB")

        async def awaited() -> int:
            return await where.aio(0)

        assert asyncio.run(awaited()) != os.getpid()


class TestUse:
    def test_a_block_leaves_no_process_and_is_over_afterwards(self) -> None:
        from gpuforge.runtime import context

        with gf.cluster(local=1, timeout=LONG) as cluster:
            assert context.cluster.get() is cluster
            assert distributed.Client.current() is cluster.client
            (pid,) = cluster.map(process, [0])
            assert array.ones(4, chunks=2).sum().compute() == 4
            waiting = [cluster.submit(slowly, LONG) for _ in range(3)]
        for future in waiting:
            with pytest.raises(TaskCancelled, match="cluster is closed"):
                future.result(LONG)
        assert context.cluster.get() is None
        assert not Path(f"/proc/{pid}").exists()
        for call in (lambda: cluster.map(abs, [1]), lambda: cluster.submit(abs, 1)):
            with pytest.raises(ClusterUnavailable, match="was closed"):
                call()

    def test_dasks_own_objects_stay_as_they_are(self, cluster: Cluster) -> None:
        theirs = cluster.client.cluster
        for given in (cluster.client, theirs, theirs.scheduler_address):
            with gf.cluster(given, timeout=LONG) as found:
                assert found.map(operator.neg, [1, 2]) == [-1, -2]
        assert cluster.map(operator.neg, [1]) == [-1]
        with client_of(theirs.scheduler_address, 0) as closed:
            pass
        with pytest.raises(ClusterUnavailable, match="it is closed"):
            gf.cluster(closed)

    def test_adaptive_is_dasks_own(self) -> None:
        with gf.cluster(adaptive=(0, 2), timeout=LONG) as cluster:
            assert cluster.map(operator.neg, [1, 2]) == [-1, -2]
            assert len(cluster.client.cluster.workers) <= 2  # none once they had nothing to do

    def test_encrypted(self) -> None:
        pytest.importorskip("cryptography", reason="cryptography is not installed")
        security = distributed.Security.temporary()
        with gf.cluster(local=1, security=security, timeout=LONG) as cluster:
            address = cluster.client.scheduler.address
            assert address.startswith("tls://")
            assert cluster.map(operator.neg, [1]) == [-1]
            with gf.cluster(address, security=security, timeout=LONG) as second:
                assert second.map(operator.neg, [2]) == [-2]
            with pytest.raises(ClusterUnavailable, match=address):
                gf.cluster(address, timeout=2)

    def test_learned_on_a_worker_is_known_here_under_its_machine(
        self, own_home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And goes along to the next worker of that kind, whose own history is empty."""
        from gpuforge.runtime.executor.cluster.learning import stored

        def learn(home: str) -> tuple[str, int]:
            from gpuforge.runtime.prelude import prelude
            from gpuforge.runtime.session import default_session

            prelude.end()
            for _ in range(30):
                wave(np.ones(50_000))
            session = default_session()
            return session.history.machine, len(session.history.rows().timings)

        x = str(own_home)
        with scheduler() as (address, _):
            for number in (1, 2):
                theirs = own_home / f"worker{number}"
                monkeypatch.setenv("XDG_CACHE_HOME", str(theirs))
                monkeypatch.setenv("OMP_NUM_THREADS", "1")  # another machine, to go by its print
                with worker(address), client_of(address, 1) as client:
                    monkeypatch.setenv("XDG_CACHE_HOME", str(own_home / "cache"))
                    monkeypatch.delenv("OMP_NUM_THREADS")
                    with gf.cluster(client) as cluster:
                        if number == 2:
                            assert client.run(known_to_worker) == dict.fromkeys(
                                client.nthreads(), True
                            )
                        ((machine, _),) = cluster.map(learn, [x])
                assert machine != stored().machine
                assert not stored().rows().timings
                rows = stored().rows(everywhere=True).timings
                assert {row[0] for row in rows} == {machine}


def known_to_worker() -> bool:
    from gpuforge.runtime.executor.cluster.learning import stored

    return bool(stored().rows().timings)


class TestTrouble:
    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            (((), {}), "takes an address, a Dask cluster"),
            ((("tcp://x:1",), {"local": 2}), "takes an address, a Dask cluster"),
            (((), {"local": 0}), "local=0"),
            (((), {"local": True}), "local=True"),
            (((), {"adaptive": (3, 1)}), "adaptive="),
            (((3,), {}), "not 3"),
        ],
    )
    def test_wrong_arguments_are_refused(self, arguments: Any, text: str) -> None:
        with pytest.raises(InvalidSettings, match=text):
            gf.cluster(*arguments[0], **arguments[1])

    def test_without_dask_it_says_how_to_install_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "distributed", None)
        with pytest.raises(BackendUnavailable, match="needs dask and distributed") as caught:
            gf.cluster(local=1)
        assert "cluster" in caught.value.hint or "distributed" in caught.value.hint

    @pytest.mark.parametrize("silent", [False, True])
    def test_a_scheduler_that_is_not_there_is_named(self, silent: bool) -> None:
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            if silent:  # something listens, and it is no scheduler
                listening.listen()
            address = f"tcp://127.0.0.1:{listening.getsockname()[1]}"
            with pytest.raises(ClusterUnavailable, match=address) as caught:
                gf.cluster(address, timeout=1)
        assert "dask scheduler" in caught.value.hint

    def test_an_address_that_means_nothing(self) -> None:
        with pytest.raises(ClusterUnavailable, match=r"nowhere\.invalid"):
            gf.cluster("tcp://nowhere.invalid:8786", timeout=1)
        with pytest.raises(ClusterUnavailable, match="foo://x"):
            gf.cluster("foo://x", timeout=1)

    def test_no_workers_is_said_and_adaptive_needs_an_object(self) -> None:
        with scheduler() as (address, _):
            with pytest.warns(UserWarning, match="has no workers yet"):
                gf.cluster(address, timeout=LONG).close()
            with pytest.raises(InvalidSettings, match="adaptive= needs"):
                gf.cluster(address, adaptive=(1, 2), timeout=LONG)

    def test_a_worker_killed_in_the_middle_loses_nothing(self) -> None:
        with (
            scheduler() as (address, _),
            worker(address) as first,
            worker(address),
            client_of(address, 2) as client,
            gf.cluster(client) as cluster,
        ):
            items = [0.02] * 150
            coming = cluster.map(lambda x: (slowly(x), os.getpid())[1], iter(items))
            found = [next(coming) for _ in range(10)]
            first.kill()  # SIGKILL
            found += coming
        assert len(found) == len(items)
        assert len(set(found)) == 2

    def test_a_scheduler_that_dies_is_an_error_of_map_and_submit(self) -> None:
        with (
            scheduler() as (address, running),
            worker(address),
            client_of(address, 1) as client,
        ):
            cluster = gf.cluster(client)
            future = cluster.submit(slowly, LONG, name="the nap")
            coming = cluster.map(slowly, iter([0.0] * 3 + [LONG]))
            threading.Timer(0.5, running.kill).start()
            with pytest.raises(ClusterUnavailable, match=f"{address} is lost") as caught:
                list(coming)
            assert "items of the map had finished" in str(caught.value)
            with pytest.raises(ClusterUnavailable, match="before the nap was done"):
                future.result(LONG)
            with pytest.raises(ClusterUnavailable, match=address):
                cluster.map(abs, [1])
            cluster.close()

    def test_an_item_that_ends_its_worker_is_told_from_its_neighbours(self) -> None:
        def deadly(x: int) -> int:
            if x == 5:
                os.kill(os.getpid(), signal.SIGKILL)
            return x

        import dask.config

        once = dask.config.set({"distributed.scheduler.allowed-failures": 0})  # or four tries each
        with once, gf.cluster(local=2, timeout=LONG) as cluster:
            found = cluster.map(deadly, range(12), on_error="return")
            with pytest.raises(WorkerDied, match="one that dies"):
                cluster.submit(deadly, 5, name="one that dies").result(LONG)
        assert isinstance(found.pop(5), WorkerDied)
        assert found == [*range(5), *range(6, 12)]

    def test_other_versions_on_a_worker_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        older = "import gpuforge; gpuforge.__version__ = '0.0.1'"
        absent = "import sys; sys.modules['gpuforge'] = None"
        with scheduler() as (address, _):
            for python, text in (
                (older, "has gpuforge 0.0.1"),
                (absent, "gpuforge is not installed"),
            ):
                with worker(address, python=python), client_of(address, 1) as client:
                    with pytest.raises(EnvironmentMismatch, match=text) as caught:
                        gf.cluster(client)
                    assert "install" in caught.value.hint

    def test_ctrl_c_in_a_destructor_ends_a_map(
        self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Python ignores an exception there, and futures of Dask have one."""

        class Future:
            def __del__(self) -> None:
                signal.raise_signal(signal.SIGINT)
                reached.append(1)

        def submits(*args: Any, **options: Any) -> Any:
            if len(reached) < 1:
                Future()
            return submit(*args, **options)

        reached: list[int] = []
        submit = cluster.client.submit
        monkeypatch.setattr(cluster.client, "submit", submits)
        with ctrl_c(), pytest.raises(KeyboardInterrupt, match="0 of 400 items of the map"):
            cluster.map(slowly, [0.01] * 400)
        assert reached  # it was held back until Dask was done
        assert cluster.map(abs, [-1]) == [1]

    def test_ctrl_c_in_the_iterator_of_a_map_is_raised_there(self, cluster: Cluster) -> None:
        def items() -> Iterator[int]:
            yield from range(3)
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                noticed.append(1)
                raise

        noticed: list[int] = []
        with ctrl_c(), pytest.raises(KeyboardInterrupt, match=" items of the map had finished"):
            list(cluster.map(abs, items()))
        assert noticed
        with ctrl_c(), pytest.raises(KeyboardInterrupt, match=r"^$"):  # not in the map's own time
            for _ in cluster.map(abs, iter(range(3))):
                signal.raise_signal(signal.SIGINT)

    def test_a_client_that_closes_late_hides_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "late.py").write_text(textwrap.dedent(LATE))
        done = subprocess.run(
            [sys.executable, "late.py"], cwd=tmp_path, capture_output=True, text=True,
            timeout=2 * LONG, check=False,
        )  # fmt: skip
        assert not done.returncode, done.stderr
        said, pid = done.stdout.split()
        assert said == "mine"
        until = time.monotonic() + LONG
        while alive(int(pid)):
            assert time.monotonic() < until
            time.sleep(0.01)

    def test_ctrl_c_in_the_middle_ends_all_and_says_how_far_it_came(self, tmp_path: Path) -> None:
        done = interrupted(tmp_path, signal.SIGINT)
        assert "of 40 items of the map had finished, the others are given up" in done

    def test_a_termination_in_the_middle_leaves_no_process_and_no_file(
        self, tmp_path: Path
    ) -> None:
        done = interrupted(tmp_path, signal.SIGTERM)
        assert "gpuforge: the map was terminated: " in done
        assert not list(tmp_path.glob("gpuforge-cluster-*"))


LATE = """
    import os
    import gpuforge as gf

    def late(timeout):
        close(timeout=60)
        raise TimeoutError(f"timed out after {timeout} s")

    if __name__ == "__main__":
        cluster = gf.cluster(local=1, timeout=60)
        close, cluster.client.close = cluster.client.close, late
        try:
            with cluster:
                (pid,) = cluster.map(lambda x: os.getpid(), [0])
                raise KeyboardInterrupt("mine")
        except KeyboardInterrupt as error:
            print(error, pid)
"""

PROGRAM = """
    import os, threading
    import gpuforge as gf

    def nap(x):
        os.write(1, b"%d\\n" % os.getpid())  # at once: two workers write to one pipe
        threading.Event().wait(x)

    if __name__ == "__main__":
        with gf.cluster(local=2, timeout=60) as cluster:
            cluster.map(nap, [0.0] * 10 + [60.0] * 30)
"""


def interrupted(folder: Path, number: signal.Signals) -> str:
    """Send a signal to a program, as a terminal does, once its map hangs; return what it told."""
    program = folder / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    with ctrl_c():  # else it ignores SIGINT, as a program does that a shell starts with "&"
        running = subprocess.Popen(
            [sys.executable, program],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, "TMPDIR": str(folder)},
        )  # fmt: skip
    assert running.stdout is not None
    workers: set[int] = set()
    while len(workers) < 2:  # the short naps that wait behind a long one may never begin
        workers.add(int(running.stdout.readline()))
    if number == signal.SIGINT:
        os.killpg(running.pid, number)
    else:
        running.send_signal(number)
    _, told = running.communicate(timeout=LONG)
    assert running.returncode == -number
    until = time.monotonic() + LONG
    while any(alive(pid) for pid in workers):
        assert time.monotonic() < until, "a worker was left behind"
        time.sleep(0.01)
    return told


@contextlib.contextmanager
def ctrl_c() -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt, also in a run of the tests that a shell put aside."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def alive(pid: int) -> bool:
    """Return whether a process runs; one that only waits for its parent to take note is over."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class TestPickled:
    def test_by_cloudpickle_a_function_of_main_goes_by_value(self, tmp_path: Path) -> None:
        made, taken = tmp_path / "made.py", tmp_path / "taken.py"
        made.write_text(
            "import functools, pickle, sys\n"
            "import cloudpickle\n"
            "import gpuforge as gf\n"
            "K = 4.0\n"
            "@gf.offload(numerics='exact')\n"
            "def f(x): return x * K if x.sum() > 1 else f(x + 1)\n"
            "class Owner:\n"
            "    @gf.offload\n"
            "    def method(self, x): return x * 3\n"
            "assert pickle.loads(pickle.dumps(f)) is f\n"
            "cloudpickle.dump((f, functools.partial(f), Owner().method), open('f', 'wb'))\n"
            "cloudpickle.dump(f, open('again', 'wb'))\n"
        )
        taken.write_text(
            "import pickle\n"
            "import numpy as np\n"
            "f, g, method = pickle.load(open('f', 'rb'))\n"
            "assert g.func is f and f.__wrapped__.__globals__['f'] is f\n"
            "assert pickle.load(open('again', 'rb')) is f\n"
            "assert f._options.numerics == 'exact' and f.__name__ == 'f'\n"
            "assert f(np.zeros(2)).tolist() == [4.0, 4.0]\n"
            "assert method(np.ones(2)).tolist() == [3.0, 3.0]\n"
            "assert not hasattr(f, 'nothing')\n"
        )
        for program in (made, taken):
            subprocess.run([sys.executable, program], check=True, cwd=tmp_path)


def test_what_is_sent_is_made_once_in_a_process() -> None:
    first, second = work.Function(wave), work.Function(wave)
    assert first.digest == second.digest
    assert first.made() is second.made() is wave
    for number in range(work.MAX_FUNCTIONS + 2):
        work.Function(functools.partial(abs, number)).made()
    assert len(work._made) == work.MAX_FUNCTIONS

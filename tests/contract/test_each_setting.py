"""Every setting changes what a user gets: the same act with and without it ends differently.

A setting without a row in `EFFECTS` fails, and so does a row whose setting is read by nobody.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuforge as gf
from gpuforge import settings
from gpuforge.cli.commands.env.make import _confirm, _sources
from gpuforge.cli.main import main
from gpuforge.diagnose.run import run_checks
from gpuforge.errors import GpuForgeError
from gpuforge.probe import SnapshotProbe
from gpuforge.runtime.threads.contention import ONE_THREAD
from gpuforge.runtime.workers.compiler import Compilers

from .null import NullBackend

HOME = Path(__file__).parents[2]
GPU = "nv-rtx4090-535-xml"


def doubled(x: Any) -> Any:
    return x + x


@dataclass
class World:
    """Where an effect is looked for: a null device, a recorded machine, a home of its own."""

    device: NullBackend
    request: pytest.FixtureRequest
    folder: Path
    capsys: pytest.CaptureFixture[str]
    patch: pytest.MonkeyPatch

    def command(self, *words: str) -> tuple[int, str, str]:
        """Return status, stdout and stderr of a command in this process."""
        status = main(list(words))
        streams = self.capsys.readouterr()
        return status, streams.out, streams.err

    def recorded(self, *words: str, machine: str = GPU) -> Any:
        """Return the JSON document of a command on a recorded machine."""
        folder = str(self.request.getfixturevalue("corpus") / "devices" / machine)
        found = json.loads(self.command(*words, "--snapshot", folder, "--json")[1])
        found.pop("elapsed_seconds", None)
        return found

    def process(self, *words: str, program: str = "") -> tuple[str, str]:
        """Return stdout and stderr of gpuforge in a process of its own."""
        (self.folder / "program.py").write_text(program)
        paths = map(str, (self.folder, self.folder / "site-packages"))
        done = subprocess.run(
            [sys.executable, "-m", "gpuforge", *words], cwd=self.folder, capture_output=True,
            text=True, timeout=60, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )  # fmt: skip
        return done.stdout, done.stderr

    def detected_twice(self) -> bool:
        """Return whether the second of two detections came from the cache."""
        gf.detect()
        return bool(gf.detect().from_cache)

    def add_package(self, group: str) -> None:
        """Put a package of others on the path, with an entry point of that group."""
        (self.folder / "other_backend.py").write_text(
            'LIBRARY = "numpy"\ndef detect(probe):\n    raise RuntimeError("as an example")\n'
        )
        info = self.folder / "other-1.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1\n")
        (info / "entry_points.txt").write_text(f"[{group}]\nother = other_backend\n")


def explained(**options: Any) -> Callable[[World], Any]:
    """Return an act: call a function often, then ask where its next call would run and why."""

    def act(world: World) -> Any:
        function = gf.offload(**options)(doubled)
        with gf.session(history=False) as held:
            with contextlib.suppress(GpuForgeError):
                held.find("null")
            rest = function.explain(np.ones(3000))
            return [(row.backend, row.candidate) for row in rest.rows], rest.notes

    return act


def ran(**options: Any) -> Callable[[World], Any]:
    """Return an act: call a function; what it gives is where it ran, and what the device did."""

    def act(world: World) -> Any:
        account = world.device.account
        account.releases = 0
        function = gf.offload(**options)(doubled)
        with gf.session(history=False) as held:
            with contextlib.suppress(GpuForgeError):
                held.find("null")
            moved = account.put_bytes
            try:
                for _ in range(20):
                    function(np.ones(3000))
            except GpuForgeError as error:
                return type(error).__name__
            places = set(function.stats().counts)
        return places, account.put_bytes > moved, account.releases > 0

    return act


def tried(world: World) -> Any:
    """Return whether a device was tried within many calls that nobody pinned."""
    account, function = world.device.account, gf.offload(lambda x: gf.namespace(x).sin(x))
    with gf.session(history=False) as held:
        held.find("null")
        before = account.put_bytes
        for _ in range(1000):
            function(np.ones(20_000))
            if account.put_bytes > before:
                return True
    return False


def kept_files(world: World) -> Any:
    """Return what a session leaves behind in a folder of its own, or in the setting's."""
    if "GPUFORGE_CACHE_FOLDER" not in os.environ:
        world.patch.setenv("XDG_CACHE_HOME", tempfile.mkdtemp(dir=world.folder))
    folder = settings.cache_folder(settings.load().settings)
    with gf.session() as held:
        held.history.keep_constant("example", 1.0)
    return folder.name, folder.exists() and sorted(path.name for path in folder.iterdir())


def plan_files(world: World) -> Any:
    world.patch.chdir(world.folder)
    with gf.session(deterministic=True, history=False):
        gf.offload(doubled)(np.ones(64))
    return sorted(path.name for path in world.folder.glob("*.plan"))


def sources(world: World) -> Any:
    target = Namespace(python="3.12", platform="linux-64")
    return _sources(Namespace(wheelhouse=None), Namespace(target=target))  # type: ignore[arg-type]


def confirmed(world: World) -> Any:
    world.patch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    try:
        _confirm(Namespace(yes=False), "make it?")
    except GpuForgeError as error:
        return type(error).__name__
    return "made"


def memory_state(world: World) -> Any:
    path = world.folder / "sysroot" / "proc" / "meminfo"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("MemTotal: 100000000 kB\nMemAvailable: 40000000 kB\n")
    return run_checks("host_memory", probe=SnapshotProbe(world.folder)).findings[0].state


def asked_at_once(world: World) -> Any:
    """Return whether two vendors were ever asked at the same time."""
    import gpuforge.detect.amd
    import gpuforge.detect.nvidia

    here: list[int] = []

    def slow(probe: Any) -> Any:
        here.append(1)
        time.sleep(0.2)
        together = len(here) > 1
        here.pop()
        raise RuntimeError("together" if together else "alone")

    for module in (gpuforge.detect.amd, gpuforge.detect.nvidia):
        world.patch.setattr(module, "detect", slow)
    found = gf.detect(refresh=True).failures
    return "together" in str(found)


def waited_for(world: World) -> Any:
    import gpuforge.detect.nvidia

    world.patch.setattr(gpuforge.detect.nvidia, "detect", lambda probe: time.sleep(0.3))
    return [failure.kind for failure in gf.detect(refresh=True).failures]


def threads(world: World) -> Any:
    # Dask's own module sets numbers of threads in the process that imports it.
    for name in ("OPENBLAS_THREAD_TIMEOUT", *ONE_THREAD):
        world.patch.delenv(name, raising=False)
    return world.process("run", "program.py", program=THREADS)[0]


def pauses(world: World) -> Any:
    slept: list[float] = []

    def stop(seconds: float) -> None:
        slept.append(seconds)
        raise KeyboardInterrupt

    world.patch.setattr("gpuforge.cli.commands.detect.time.sleep", stop)
    world.command("detect", "--watch", "--cpu-only")
    return slept


def plugins(group: str, *words: str) -> Callable[[World], Any]:
    def act(world: World) -> Any:
        world.add_package(group)
        return "other" in "".join(world.process(*words, program=PLACED))

    return act


def limited(world: World) -> bool:
    """Return whether a worker may take little more than it takes."""
    with gf.session(history=False) as held:
        pid = held.find("numpy", True).home._worker.process.pid
        pages = Path(f"/proc/{pid}/statm").read_text().split()[0]
        limit, _ = resource.prlimit(pid, resource.RLIMIT_AS)
        return limit - int(pages) * resource.getpagesize() < 2**26


def warmed(world: World) -> Any:
    """Return what is opened after a first call, where the last run of the program used a device."""
    world.patch.setattr("gpuforge.runtime.startup.warming.learned", lambda: ["null"])
    with gf.session(history=False) as held:
        gf.offload(doubled)(np.ones(3))
        for one in held.openings.all:
            one.wait()
        return [one.library.name for one in held.openings.all]


def compiled_for(world: World) -> Any:
    """Return for which libraries a process that compiles would be started."""
    begun: list[str] = []
    world.patch.setattr(Compilers, "begin", lambda self, library: begun.append(library))
    for name, found in (("compiles", True), ("may_have_gpu", False)):
        world.patch.setattr(
            f"gpuforge.runtime.startup.trials.{name}", lambda *_, found=found: found
        )
    world.patch.setattr("gpuforge.runtime.threads.contention.allowed_cores", lambda: 2)
    with gf.session(history=False) as held:
        held.trials.compile_elsewhere("jax")
    return begun


def imported(world: World) -> Any:
    """Return whether a heavy library is loaded that the program only imports."""
    libraries = world.folder / "site-packages"
    libraries.mkdir(exist_ok=True)
    (libraries / "sympy.py").write_text("print('loaded')")
    return world.process("run", "program.py", program="import sympy")[0]


def cached(world: World) -> Any:
    (world.folder / "jax.py").write_text("")
    world.patch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    return world.process("run", "program.py", program=CACHED)[0]


CACHED = "import os; print('JAX_COMPILATION_CACHE_DIR' in os.environ)"
KEPT = """
import gpuforge as gf
from gpuforge.runtime import heap
gf.session().__enter__()
print(heap.kept_bytes)
"""
THREADS = "import os; print(os.environ.get('OPENBLAS_THREAD_TIMEOUT'))"
PLACED = """
import gpuforge as gf, numpy as np
from gpuforge.runtime.session import current_session
print(gf.offload(lambda x: x + x)(np.ones(3)), [*current_session().libraries])
"""
EFFECTS: dict[str, tuple[str, Callable[[World], Any]]] = {
    "enabled": ("off", explained()),
    "cpu_only": ("on", lambda world: world.recorded("detect")["devices"]),
    "backend": ("null", ran()),
    "backends": ("numpy", explained()),
    "forbid": ("null", explained()),
    "device": ("cpu", explained()),
    "fallback": ("on", ran(backend="null:tpu")),
    "numerics": ("exact", ran(backend="null")),
    "deterministic": ("on", explained()),
    "plan": ("example.plan", plan_files),
    "learn": ("off", explained()),
    "explore_share": ("0", tried),
    "min_elements": ("1000000", tried),
    "compiler_process": ("off", compiled_for),
    "warmup": ("on", warmed),
    "lazy_imports": ("on", imported),
    "kernel_caches": ("off", cached),
    "plugins": ("on", plugins("gpuforge.backends", "run", "program.py")),
    "tame_threads": ("off", threads),
    "kept_memory": ("0", lambda world: world.process("run", "program.py", program=KEPT)[0]),
    "history": ("off", kept_files),
    "cache_folder": ("{folder}/elsewhere", kept_files),
    "package_index": ("https://index.example/simple", sources),
    "framework_index": ("default", lambda world: world.recorded("env", "export")["text"]),
    "find_links": ("/wheels", sources),
    "framework": ("jax", lambda world: world.recorded("env", "recommend")["framework"]),
    "profile": ("learning", lambda world: world.recorded("env", "recommend")["profile"]),
    "auto_install": ("on", confirmed),
    "memory_limit": ("3 GB", lambda world: world.recorded("env", "recommend")["fit"]),
    "memory_strategy": ("eager", ran(backend="null")),
    "worker_memory": ("16 MiB", limited),
    "pressure_warning": ("0.5", memory_state),
    "pressure_critical": ("0.5", memory_state),
    "profiler": ("off", lambda world: world.process("run", "program.py", program="x = 1")[1] != ""),
    "monitor_interval": ("7", pauses),
    "cache_seconds": ("0", World.detected_twice),
    "detect_cache": ("off", World.detected_twice),
    "detect_parallel": ("off", asked_at_once),
    "detect_plugins": ("on", plugins("gpuforge.detectors", "detect", "--refresh", "--verbose")),
    "vendor_seconds": ("0.05", waited_for),
    "verbose": ("on", lambda world: world.command("config", "path")[2] != ""),
    "log": ("info", lambda world: world.command("config", "path")[2] != ""),
}  # fmt: skip


@pytest.fixture
def world(null_device: Any, request: Any, tmp_path: Path, capsys: Any) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patch:
        yield World(null_device[1], request, tmp_path, capsys, patch)


@pytest.mark.parametrize("name", settings.names())
def test_each_setting_changes_what_a_user_gets(
    name: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    value, act = EFFECTS[name]
    without = act(world)
    monkeypatch.setenv(f"GPUFORGE_{name.upper()}", value.format(folder=world.folder))
    assert act(world) != without


def test_no_effect_is_listed_of_what_is_no_setting() -> None:
    assert set(EFFECTS) == set(settings.names())

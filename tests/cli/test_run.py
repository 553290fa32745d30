"""``gpuforge run`` behaves as ``python`` does: stdout, stderr and exit status, byte for byte."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gpuforge.profiler.paths import paths
from gpuforge.profiler.session_file import read
from gpuforge.runtime.backends import list_backends

PYTHON = [sys.executable]
RUN = [sys.executable, "-m", "gpuforge", "run"]

# Each is a whole program. What differs between two runs of plain Python (addresses, process
# numbers) must not be printed.
PROGRAMS = {
    "main module": """
        import sys, __main__
        print(__name__, __file__, __spec__, __package__, __doc__, type(__loader__), __cached__)
        print(sys.modules["__main__"] is __main__, sorted(globals()), __builtins__ is not None)
        print(sys.argv, sys.path, sys.orig_argv[1:], sys.flags, sys.warnoptions)
    """,
    "environment": """
        import os
        ours = ("OPENBLAS_THREAD_TIMEOUT", "JAX_COMPILATION_CACHE_DIR")
        print(sorted(item for item in os.environ.items() if item[0] not in ours))
    """,
    "nothing loaded": "import sys; print('gpuforge' in sys.modules, sorted(sys.modules)[:0])",
    "status 3": "raise SystemExit(3)",
    "status 256": "raise SystemExit(256)",
    "status minus one": "import sys; sys.exit(-1)",
    "status None": "raise SystemExit(None)",
    "status True": "raise SystemExit(True)",
    "status text": "raise SystemExit('it went wrong')",
    "status tuple": "raise SystemExit(('a', 1))",
    "status in a function": """
        import sys
        def leave():
            try:
                sys.exit(4)
            finally:
                print("leaving")
        leave()
    """,
    "os._exit": "import os; print('lost'); os._exit(5)",
    "exception": """
        def inner(x):
            return 1 / x
        def outer():
            return inner(0)
        outer()
    """,
    "chained exception": """
        try:
            {}["missing"]
        except KeyError as error:
            raise ValueError("a note follows") from error
    """,
    "exception group": """
        raise ExceptionGroup("several", [ValueError(1), TypeError("x")])
    """,
    "own exception": """
        class Odd(Exception):
            def __str__(self):
                raise RuntimeError("no text")
        raise Odd
    """,
    "recursion": """
        import sys
        depth = 0
        def deeper():
            global depth
            depth += 1
            deeper()
        try:
            deeper()
        except RecursionError:
            print(depth, sys.getrecursionlimit())
    """,
    "stack": """
        import inspect, traceback, warnings, sys
        traceback.print_stack()
        print(len(inspect.stack()))
        for level in range(1, 5):
            warnings.warn("from here", stacklevel=level)
        print(sys._getframe().f_back)
    """,
    "syntax error": "print('before')\ndef broken(:\n    pass",
    "indentation error": "if True:\nprint(1)",
    "excepthook": """
        import sys
        sys.excepthook = lambda kind, value, trace: print("hook", kind, value, trace.tb_next)
        raise ValueError("seen")
    """,
    "broken excepthook": """
        import sys
        def hook(kind, value, trace):
            raise RuntimeError("in the hook")
        sys.excepthook = hook
        raise ValueError("unseen")
    """,
    "keyboard interrupt": "raise KeyboardInterrupt",
    "interrupt signal": """
        import os, signal, time
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)
    """,
    "interrupted in the runtime": """
        import gpuforge.runtime
        raise KeyboardInterrupt
    """,
    "spoilt search path": """
        import sys
        sys.path.clear()
        sys.path_importer_cache.clear()
        print("end")
    """,
    "terminated": """
        import os, signal
        print("buffered and lost")
        os.kill(os.getpid(), signal.SIGTERM)
    """,
    "signal handler": """
        import os, signal, sys
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))
        print([signal.getsignal(s) for s in (signal.SIGPIPE, signal.SIGHUP, signal.SIGXFSZ)])
        os.kill(os.getpid(), signal.SIGTERM)
    """,
    "abort": "import os; os.abort()",
    "atexit order": """
        import atexit, threading, time
        done = threading.Event()
        def late():
            done.wait()
            print("thread")
        for number in range(3):
            atexit.register(print, "exit", number)
        threading.Thread(target=late).start()
        print("main ends")
        done.set()
    """,
    "atexit fails": """
        import atexit
        atexit.register(lambda: 1 / 0)
        atexit.register(print, "before it")
    """,
    "objects at the end": """
        class Last:
            def __del__(self, say=print):
                say("deleted", __name__)
        kept = Last()
        print("end")
    """,
    "thread fails": """
        import threading
        def work():
            raise ValueError("in a thread")
        thread = threading.Thread(target=work, name="worker")
        thread.start()
        thread.join()
    """,
    "daemon thread": """
        import threading
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        print("end")
    """,
    "input": """
        import sys
        print(repr(input()), repr(sys.stdin.read()))
        input()
    """,
    "closed streams": """
        import os, sys
        os.write(2, b"last\\n")
        sys.stdout.close()
        sys.stderr.close()
    """,
    "own streams": """
        import io, sys
        sys.stdout = sys.stderr = io.StringIO()
        print("nobody sees this")
    """,
    "binary output": r"import sys; sys.stdout.buffer.write(b'\\xff\\x00\\r\\n'); print('ä')",
    "pickle": """
        import pickle
        from dataclasses import dataclass
        @dataclass
        class Point:
            x: int
        data = pickle.dumps(Point(1))
        print(b"__main__" in data, pickle.loads(data))
    """,
    "spawn": """
        import multiprocessing, sys
        class Square:
            def __call__(self, x):
                return x * x
        print("imported as", __name__, sys.argv, __spec__)
        def work(x):
            print("child", x, flush=True)
            if x == 2:
                raise SystemExit(7)
        if __name__ == "__main__":
            context = multiprocessing.get_context("spawn")
            with context.Pool(1) as pool:
                print(pool.map(Square(), range(5)))
            for x in (1, 2):
                child = context.Process(target=work, args=(x,))
                child.start()
                child.join()
                print(child.exitcode)
    """,
    "spawn without guard": """
        import multiprocessing
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=print)
        process.start()
        process.join()
        print(process.exitcode)
    """,
    "fork": """
        import multiprocessing, os, sys
        def work(x):
            print("child", x, flush=True)
            sys.exit(x)
        context = multiprocessing.get_context("fork")
        for x in (0, 3):
            child = context.Process(target=work, args=(x,))
            child.start()
            child.join()
            print(child.exitcode, flush=True)
        if os.fork() == 0:
            sys.exit(9)
        print(os.waitstatus_to_exitcode(os.wait()[1]))
    """,
    "forkserver": """
        import multiprocessing
        def work(x):
            return x + 1
        if __name__ == "__main__":
            with multiprocessing.get_context("forkserver").Pool(1) as pool:
                print(pool.map(work, [1, 2]))
    """,
    "process pool": """
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor
        def work(x):
            return 1 / x
        if __name__ == "__main__":
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                print(list(pool.map(work, [1, 2])))
                print(repr(pool.submit(work, 0).exception()))
    """,
    "child interpreter": """
        import subprocess, sys
        code = "import sys; print(sys.argv, 'sitecustomize' in sys.modules, sys.path)"
        print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True))
    """,
    "starts itself again": """
        import os, sys
        print(sys.argv, flush=True)
        if len(sys.argv) < 5:
            os.execv(sys.executable, [sys.executable, *sys.argv, "again"])
    """,
    "asyncio": """
        import asyncio
        async def main():
            await asyncio.sleep(0)
            raise ValueError("in a task")
        asyncio.run(main())
    """,
    "logging at the end": """
        import atexit, logging
        logging.basicConfig(level=logging.DEBUG)
        atexit.register(logging.warning, "at exit")
        logging.info("now")
    """,
    "unraisable": """
        class Bad:
            def __del__(self):
                raise ValueError("in del")
        Bad()
    """,
    "annotations": "x: int = 1\nprint(__annotations__)",
    "future flags": "from __future__ import annotations\nx: unknown = 1\nprint(__annotations__)",
}
RAW = {
    "not UTF-8": b"print('caf\xe9')\n",
    "latin-1 said": b"# -*- coding: latin-1 -*-\nprint(ascii('caf\xe9'))\n",
    "byte order mark": b"\xef\xbb\xbfprint(1)\n",
    "null byte": b"print(1)\x00\n",
    "carriage returns": b"print(1)\r\nprint('''a\r\nb''')\r\n",
    "empty": b"",
}


def start(
    command: list[str], folder: Path, *, variables: dict[str, str] | None = None, text: bytes = b""
) -> tuple[int, bytes, bytes]:
    done = subprocess.run(
        command,
        cwd=folder,
        input=text,
        capture_output=True,
        env={**os.environ, "PYTHONHASHSEED": "0", **(variables or {})},
        timeout=60,
    )
    numbers = rb"0x[0-9a-f]{6,}|(?<=tracker_fd=)\d+|(?<=pipe_handle=)\d+"  # of memory and files
    out, err = (re.sub(numbers, b"...", stream) for stream in (done.stdout, done.stderr))
    return done.returncode, out, err


def assert_same(arguments: list[str], folder: Path, **options: object) -> None:
    """Run it both ways; the summary at the end is all that gpuforge may add."""
    plain = start([*PYTHON, *arguments], folder, **options)  # type: ignore[arg-type]
    status, out, err = start([*RUN, *arguments], folder, **options)  # type: ignore[arg-type]
    assert (status, out) == plain[:2]
    assert err.startswith(plain[2])
    added = err.removeprefix(plain[2])
    assert added == b"" or (added.startswith(b"gpuforge: ") and added.count(b"gpuforge: ") == 1)


def write(source: str, path: Path) -> None:
    lines = source.strip("\n").splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    path.write_text("\n".join(line[indent:] for line in lines) + "\n")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_behaves_as_under_python(name: str, tmp_path: Path) -> None:
    write(PROGRAMS[name], tmp_path / "program.py")
    assert_same(["program.py", "--quiet", "-m", "x y"], tmp_path, text=b"one\ntwo\n")


FORKS = {"PYTHONWARNINGS": "ignore:This process:DeprecationWarning"}
"""Since 3.12, Python warns of a fork while the thread runs that writes the profile."""
LOADED = {"nothing loaded"}
"""Programs that look whether gpuforge is loaded, as it is to keep a profile."""


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - LOADED))
def test_a_program_behaves_as_under_python_while_it_is_profiled(name: str, tmp_path: Path) -> None:
    write(PROGRAMS[name], tmp_path / "program.py")
    arguments = ["program.py", "--quiet", "-m", "x y"]
    plain = start([*PYTHON, *arguments], tmp_path, text=b"one\ntwo\n", variables=FORKS)
    save = [*RUN, "--quiet", "--save", "a.gfp", *arguments]
    status, out, err = start(save, tmp_path, text=b"one\ntwo\n", variables=FORKS)
    assert (status, out) == plain[:2]
    assert err.startswith(plain[2])
    said = err.removeprefix(plain[2])
    assert said == b"" or (said.startswith(b"gpuforge: profile: ") and said.count(b"\n") == 1)
    assert read(tmp_path / "a.gfp").complete or not said


def test_a_profile_is_kept_of_what_was_placed(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import os, numpy as np, gpuforge as gf\n"
        "@gf.offload\n"
        "def twice(x):\n"
        "    return x * 2\n"
        "with gf.span('whole'):\n"
        "    for _ in range(5):\n"
        "        twice(np.ones(3))\n"
        "os.chdir('/')\n"
    )
    status, _, err = start([*RUN, "--save", "a.gfp", "program.py"], tmp_path)
    assert status == 0 and b"show it with 'gpuforge report a.gfp'" in err
    profile = read(tmp_path / "a.gfp")
    assert profile.complete
    assert profile.header["program"][-1] == "program.py"
    names = [path.names for path in paths(profile)]
    assert any(one[:2] == ("program", "whole") for one in names), names
    assert ("program", "whole", "twice") in names


def test_a_profile_gives_way_to_one_that_the_program_records(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import gpuforge as gf\n"
        "with gf.span('before'):\n"
        "    pass\n"
        "with gf.profile('own.gfp') as own, gf.span('inside'):\n"
        "    print('it ran')\n"
        "print(own.profile.complete)\n"
    )
    status, out, err = start([*RUN, "--save", "a.gfp", "program.py"], tmp_path)
    assert (status, out) == (0, b"it ran\nTrue\n"), err
    assert b"it ends where the program began a profile of its own" in err
    outer, inner = read(tmp_path / "a.gfp"), read(tmp_path / "own.gfp")
    assert "before" in outer.spans.names and "inside" not in outer.spans.names
    assert outer.complete and any("began one of its own" in note for note in outer.notes)
    assert "inside" in inner.spans.names and "before" not in inner.spans.names


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no/a.gfp", "error: the session file 'no/a.gfp' cannot be written"),
        ("kept.txt", "error: 'kept.txt' exists and is not a session file"),
        (".", "error: the session file '.' cannot be written"),
    ],
)
def test_a_profile_that_cannot_be_kept_is_said_before_the_program_runs(
    path: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "kept.txt").write_text("kept")
    (tmp_path / "program.py").write_text("print('it ran')")
    status, out, err = start([*RUN, "--save", path, "program.py"], tmp_path)
    assert (status, out) == (2, b"")
    assert err.decode().startswith(message)
    assert (tmp_path / "kept.txt").read_text() == "kept"


@pytest.mark.parametrize("name", ["main module", "exception", "stack", "interrupt signal"])
def test_quiet_adds_nothing(name: str, tmp_path: Path) -> None:
    write(PROGRAMS[name], tmp_path / "program.py")
    arguments = ["program.py", "--verbose"]
    assert start([*RUN, "--quiet", *arguments], tmp_path) == start([*PYTHON, *arguments], tmp_path)


def test_profiler_is_quiet_as_a_setting_and_flags_go_before_it(tmp_path: Path) -> None:
    write("print(1)", tmp_path / "program.py")
    plain = start([*PYTHON, "program.py"], tmp_path)

    def adds(*flags: str, profiler: str) -> bool:
        variables = {"GPUFORGE_PROFILER": profiler}
        return start([*RUN, *flags, "program.py"], tmp_path, variables=variables) != plain

    assert not adds(profiler="off")
    assert adds(profiler="on") and adds("--no-quiet", profiler="off")
    assert not adds("--quiet", profiler="on")


@pytest.mark.parametrize("name", RAW)
def test_any_source_file_is_read_as_python_reads_it(name: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_bytes(RAW[name])
    assert_same(["program.py"], tmp_path)


def test_flags_may_end_before_the_script(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import sys; print(sys.argv)")
    assert_same(["--", "program.py", "--x", "--", "y"], tmp_path)


def test_a_program_from_stdin(tmp_path: Path) -> None:
    assert_same(["-", "a"], tmp_path, text=b"import sys\nprint(sys.argv, __name__)\n1 / 0\n")


MAIN = "import sys; print(__name__, __package__, __spec__.name, sys.argv, sys.path[0], __file__)"


@pytest.mark.parametrize(
    "arguments",
    [
        ["-m", "pack", "--quiet"], ["-m", "pack.part"], ["-m", "single", "-h"],
        ["-m", "pack", "a", "--", "-b"], ["-m", "pack", "--"], ["-m", "pack", "--n=4", "--no", "5"],
    ],
)  # fmt: skip
def test_a_module_behaves_as_under_python(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("print('package')")
    (tmp_path / "pack" / "__main__.py").write_text(f"from . import part\n{MAIN}")
    (tmp_path / "pack" / "part.py").write_text(MAIN)
    (tmp_path / "single.py").write_text(f"{MAIN}\n1 / 0")
    assert_same(arguments, tmp_path)


@pytest.mark.parametrize("name", ["missing", "missing.part", "pack", "json.", "...", ""])
def test_a_module_that_cannot_run_fails_as_under_python(name: str, tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    assert_same(["-m", name], tmp_path)


def test_a_module_that_spawns(tmp_path: Path) -> None:
    (tmp_path / "spawning.py").write_text(
        "import multiprocessing\n"
        "def work(x):\n    return x, __name__\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.map(work, [1]))\n"
    )
    assert_same(["-m", "spawning"], tmp_path)


def test_folders_and_archives(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__main__.py").write_text("import sys; print(sys.argv, sys.path[0])")
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.write(tmp_path / "app" / "__main__.py", "__main__.py")
    assert_same(["app", "1"], tmp_path)
    assert_same(["app.zip", "1"], tmp_path)


@pytest.mark.parametrize("path", [None, "", "lib", f"lib{os.pathsep}", f"{os.pathsep}lib"])
def test_pythonpath_and_sitecustomize_of_the_user_stay(
    path: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "sitecustomize.py").write_text("mine = __name__")
    (tmp_path / "program.py").write_text(
        "import os, sys; print(os.environ.get('PYTHONPATH'), sys.path);"
        "print(getattr(sys.modules.get('sitecustomize'), 'mine', 'not loaded'))"
    )
    assert_same(["program.py"], tmp_path, variables={} if path is None else {"PYTHONPATH": path})


def test_a_broken_sitecustomize_fails_as_under_python(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("1 / 0")
    (tmp_path / "program.py").write_text("print(1)")
    variables = {"PYTHONPATH": str(tmp_path)}
    plain = start([*PYTHON, "program.py"], tmp_path, variables=variables)
    status, out, err = start([*RUN, "program.py"], tmp_path, variables=variables)
    # gpuforge's own interpreter says it once more: it has the same search path.
    assert (status, out) == plain[:2] and err.startswith(plain[2] * 2)


def test_interpreter_options_reach_the_program(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import sys; assert False; print(sys.flags.dev_mode)")
    options = ["-O", "-X", "dev", "-W", "error::UserWarning"]
    plain = start([sys.executable, *options, "program.py"], tmp_path)
    ours = start([sys.executable, *options, *RUN[1:], "--quiet", "program.py"], tmp_path)
    assert plain == ours and plain[0] == 0


def test_a_reader_that_leaves_early(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("for n in range(10**5): print(n)")
    for command in (PYTHON, RUN):
        running = subprocess.Popen(
            [*command, "program.py"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert running.stdout and running.stderr
        assert running.stdout.readline() == b"0\n"
        running.stdout.close()
        err = running.stderr.read()
        running.stderr.close()
        assert b"BrokenPipeError" in err and running.wait() == 1


def test_the_process_is_the_one_that_was_started(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import os; print(os.getpid(), flush=True); input()")
    running = subprocess.Popen(
        [*RUN, "program.py"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert running.stdin and running.stdout
    assert int(running.stdout.readline()) == running.pid
    running.send_signal(signal.SIGTERM)
    assert running.wait() == -signal.SIGTERM
    running.stdin.close()
    running.stdout.close()


def test_the_summary_comes_last_and_once(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import atexit, sys; atexit.register(print, 'exit', file=sys.stderr); print('out')"
    )
    done = subprocess.run(
        [*RUN, "program.py"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    lines = done.stdout.decode().splitlines()
    assert sorted(lines[:2]) == ["exit", "out"] and lines[2].startswith("gpuforge: ")
    assert lines[2].endswith("no offloaded functions were called") and len(lines) == 4


def test_a_call_that_raised_is_in_the_summary(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import numpy as np, gpuforge as gf\n"
        "@gf.offload\n"
        "def refuse(x):\n"
        "    raise LookupError('no')\n"
        "refuse(np.ones(3))\n"
    )
    status, _, err = start([*RUN, "program.py"], tmp_path)
    assert status == 1
    assert b"LookupError: no" in err and b"no offloaded functions were called" not in err
    assert re.search(rb"refuse +1 .*numpy 1\xc3\x97", err), err


def test_calls_of_threads_are_counted_in_the_summary(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import threading, numpy as np, gpuforge as gf\n"
        "@gf.offload\n"
        "def twice(x):\n"
        "    return x * 2\n"
        "def work():\n"
        "    for _ in range(1000):\n"
        "        twice(x)\n"
        "x = np.ones(3)\n"
        "threads = [threading.Thread(target=work) for _ in range(4)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
    )
    status, _, err = start([*RUN, "program.py"], tmp_path)
    assert status == 0
    assert re.search(rb"twice +4000 ", err), err


def test_backend_and_verbose_reach_the_program_and_its_children(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import os; print(os.environ['GPUFORGE_BACKEND'], os.environ['GPUFORGE_VERBOSE'])"
    )
    command = [*RUN, "--verbose", "--backend", "numpy", "program.py"]
    assert start(command, tmp_path)[:2] == (0, b"numpy 1\n")


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        ([], "no program was given", "gpuforge run SCRIPT"),
        (["-m"], "no program was given", "gpuforge run SCRIPT"),
        (["progam.py"], "no file 'progam.py'", "did you mean 'program.py'?"),
        (["no/folder/x.py"], "no file 'no/folder/x.py'", "check the path"),
        (["folder"], "'folder' is a folder without __main__.py", "name a script inside it"),
        (["--backend", "nunpy", "program.py"], "unknown backend 'nunpy'", "did you mean 'numpy'?"),
        (["--bakend", "numpy", "program.py"], "unrecognized arguments", "'--backend'?"),
        (["--sav", "x.gfp", "program.py"], "unrecognized arguments: --sav", "mean '--save'?"),
        (["--zzz", "program.py"], "unrecognized arguments: --zzz", "see 'gpuforge run --help'"),
        (["--backend"], "expected one argument", "--help"),
        (["--peaks", "program.py"], "--peaks needs --save", "add --save FILE"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, hint: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("print('must not run')")
    (tmp_path / "folder").mkdir()
    status, out, err = start([*RUN, *arguments], tmp_path)
    assert (status, out) == (2, b"")
    assert message in err.decode() and hint in err.decode()


def test_a_backend_that_is_not_installed_is_refused_unless_fallback_is_set(tmp_path: Path) -> None:
    missing = next((b.name for b in list_backends() if not b.found), None)
    if missing is None:
        pytest.skip("every registered backend is installed here")
    (tmp_path / "program.py").write_text("print('runs')")
    command = [*RUN, "--quiet", "--backend", missing, "program.py"]
    status, out, err = start(command, tmp_path)
    assert (status, out) == (2, b"") and b"is not installed here" in err and b"hint: " in err
    variables = {"GPUFORGE_FALLBACK": "1"}
    assert start(command, tmp_path, variables=variables) == (0, b"runs\n", b"")


@pytest.mark.parametrize("flag", ["-E", "-I"])
def test_an_interpreter_without_variables_is_refused(flag: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("print('must not run')")
    status, out, err = start([sys.executable, flag, *RUN[1:], "program.py"], tmp_path)
    assert (status, out) == (2, b"") and b"start gpuforge without these options" in err


def test_verbose_says_the_phases(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("pass")
    err = start([*RUN, "--verbose", "program.py"], tmp_path)[2].decode()
    assert "gpuforge: starting " in err


def test_a_known_cause_is_named_after_the_traceback(tmp_path: Path) -> None:
    script = tmp_path / "fails.py"
    script.write_text(
        "raise RuntimeError('CUDA error: no kernel image is available for execution on the device')"
    )
    done = subprocess.run(
        [sys.executable, "-m", "gpuforge", "run", str(script)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    traceback, _, block = done.stderr.partition("gpuforge: ")
    assert traceback.endswith("on the device\n")
    assert "gpuforge explain torch_no_kernel_for_gpu" in block

"""Odd programs do the same with lazy imports: output, messages and exit status, byte for byte."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpuforge.runtime.startup import record

pytest.importorskip("scipy")
LAZILY = [sys.executable, "-m", "gpuforge", "run", "--quiet", "--lazy-imports"]

# Each is a whole program; the modules whose imports it defers follow, or None where it ends in a
# way that nothing can be kept.
PROGRAMS: dict[str, tuple[str, tuple[str, ...] | None]] = {
    "never used": ("import scipy\nprint('end')", ("scipy",)),
    "used at once": ("import scipy\nprint(scipy.__version__)", ("scipy",)),
    "used in a function": (
        "import scipy.linalg as la\ndef f(x):\n    return la.det(x)\nprint(f([[2.0]]))",
        ("scipy", "scipy.linalg"),
    ),
    "os._exit": ("import scipy, os\nprint('lost', flush=True)\nos._exit(5)", None),
    "sys.exit": ("import scipy, sys\nprint(scipy.__name__)\nsys.exit('it went wrong')", ("scipy",)),
    "sys.exit in a thread": (
        "import scipy, sys, threading\n"
        "def work():\n    print(scipy.__version__)\n    sys.exit(7)\n"
        "thread = threading.Thread(target=work)\nthread.start()\nthread.join()\nprint('end')",
        ("scipy",),
    ),
    "first use in eight threads": (
        "import scipy.special, threading\n"
        "found = []\n"
        "def work():\n    found.append(float(scipy.special.erf(0.0)))\n"
        "threads = [threading.Thread(target=work) for _ in range(8)]\n"
        "for t in threads: t.start()\n"
        "for t in threads: t.join()\n"
        "print(found)",
        ("scipy", "scipy.special"),
    ),
    "thread that goes on after the main module": (
        "import scipy, threading, time\n"
        "def work():\n    time.sleep(0.2)\n    print(scipy.__version__)\n"
        "threading.Thread(target=work).start()\nprint('main ends')",
        ("scipy",),
    ),
    "fork": (
        "import scipy, os, sys\n"
        "sys.stdout.flush()\n"
        "if os.fork() == 0:\n    print(scipy.__version__, flush=True)\n    os._exit(3)\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]), scipy.__version__)",
        ("scipy",),
    ),
    "multiprocessing by fork": (
        "import scipy.special, multiprocessing\n"
        "def work(x):\n    return float(scipy.special.erf(x))\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "    print(pool.map(work, [0.0, 100.0]))",
        ("scipy", "scipy.special"),
    ),
    "multiprocessing by spawn": (
        "import scipy, multiprocessing\n"
        "def work(x):\n    return x, scipy.__version__\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.map(work, [1, 2]))",
        ("scipy",),
    ),
    "signal": (
        "import scipy, os, signal\n"
        "def handle(number, frame):\n    print(number, scipy.__version__)\n"
        "signal.signal(signal.SIGUSR1, handle)\nos.kill(os.getpid(), signal.SIGUSR1)\nprint('end')",
        ("scipy",),
    ),
    "killed by SIGTERM": ("import scipy, os, signal\nos.kill(os.getpid(), signal.SIGTERM)", None),
    "KeyboardInterrupt": ("import scipy\nprint(scipy.__name__)\nraise KeyboardInterrupt", None),
    "__del__ at the end": (
        "import scipy\n"
        "class Last:\n    def __del__(self):\n        print('deleted', scipy.__version__)\n"
        "kept = Last()\nprint('end')",
        (),
    ),
    "exit function": (
        "import scipy, atexit\natexit.register(lambda: print(scipy.__version__))\nprint('end')",
        ("scipy",),
    ),
    "recursion error": (
        "import scipy\n"
        "depth = 0\n"
        "def deeper():\n    global depth\n    depth += 1\n    scipy.__version__\n    deeper()\n"
        "try:\n    deeper()\nexcept RecursionError as error:\n    print(depth, error)",
        ("scipy",),
    ),
    "from import": ("from scipy import linalg\nprint(linalg.det([[3.0]]))", ()),
    "from import star": ("from scipy.special import *\nprint(erf(0.0), 'erf' in globals())", ()),
    "import, then from import star": (
        "import scipy.special\nfrom scipy.special import *\nprint(erf is scipy.special.erf)",
        ("scipy", "scipy.special"),
    ),
    "reload": (
        "import scipy, importlib\nagain = importlib.reload(scipy)\n"
        "print(again is scipy, scipy.__version__, again.__spec__.name)",
        ("scipy",),
    ),
    "reload of what was used": (
        "import scipy, importlib\nscipy.__version__\nprint(importlib.reload(scipy) is scipy)",
        ("scipy",),
    ),
    "pickle": (
        "import scipy.special, pickle\n"
        "data = pickle.dumps(scipy.special.erf)\nprint(pickle.loads(data) is scipy.special.erf)\n"
        "try:\n    pickle.dumps(scipy)\nexcept TypeError as error:\n    print(error)",
        ("scipy", "scipy.special"),
    ),
    "cloudpickle": (
        "import cloudpickle, scipy.special, pickle\n"
        "def f(x):\n    return float(scipy.special.erf(x))\n"
        "print(pickle.loads(cloudpickle.dumps(f))(0.0), pickle.loads(cloudpickle.dumps(scipy)))",
        ("scipy", "scipy.special"),
    ),
    "pickle of a module": (
        "import scipy, pickle, copy\n"
        "try:\n    pickle.dumps(scipy)\nexcept TypeError as error:\n    print(error)\n"
        "try:\n    copy.deepcopy([scipy])\nexcept TypeError as error:\n    print(error)",
        ("scipy",),
    ),
    "copy of a module": (
        "import scipy, copy\ntry:\n    print(copy.copy(scipy))\n"
        "except TypeError as error:\n    print(error)",
        ("scipy",),
    ),
    "given another class": (
        "import scipy, types\nclass Module(types.ModuleType):\n    pass\n"
        "print(scipy.__class__)\n"
        "scipy.__class__ = Module\nprint(type(scipy), scipy.__version__)",
        ("scipy",),
    ),
    "replaced before its first use": (
        "import scipy, sys, types\nsys.modules['scipy'] = fake = types.ModuleType('scipy')\n"
        "print(scipy.__version__, sys.modules['scipy'] is fake)\n"
        "import scipy as again\nprint(again is fake)",
        ("scipy",),
    ),
    "try": (
        "try:\n    import scipy\nexcept ImportError:\n    scipy = None\n"
        "try:\n    import no_such_library\nexcept ImportError as error:\n"
        "    print(error, scipy.__name__)",
        (),
    ),
    "what is not there": (
        "import scipy\nimport scipy.no_such_part\nprint('unreached')",
        ("scipy",),
    ),
    "attribute that is not there": ("import scipy\nscipy.no_such_name", ("scipy",)),
    "names of an import in a with": (
        "import contextlib\nwith contextlib.suppress(ImportError):\n    import scipy\nprint(scipy)",
        (),
    ),
    "in a function": ("def f():\n    import scipy\n    return scipy\nprint(f().__name__)", ()),
    "importlib": (
        "import importlib\nprint(importlib.import_module('scipy.special').erf(0.0))\n"
        "print(__import__('scipy').__name__)",
        (),
    ),
    "parts of parts": (
        "import scipy.sparse.linalg as sl, scipy.sparse, scipy.linalg\n"
        "import scipy.sparse.csgraph\n"
        "print(scipy.sparse.linalg is sl, sl.norm(scipy.sparse.eye(2)))\n"
        "print(scipy.linalg.norm([3.0, 4.0]), scipy.sparse.csgraph.__name__)",
        ("scipy", "scipy.sparse", "scipy.sparse.linalg", "scipy.linalg", "scipy.sparse.csgraph"),
    ),
    "used by another library": (
        "import scipy.optimize\nfrom sklearn.linear_model import LinearRegression\n"
        "print(LinearRegression().fit([[0.0], [1.0]], [0.0, 2.0]).coef_.round(6))\n"
        "print(scipy.optimize.brentq(lambda x: x - 1, 0, 3))",
        ("scipy", "scipy.optimize"),
    ),
    "looked at": (
        "import scipy, types, inspect, sys\n"
        "print(isinstance(scipy, types.ModuleType), inspect.ismodule(scipy), callable(scipy))\n"
        "print(repr(scipy), scipy.__name__, scipy is sys.modules['scipy'])\n"
        "print('__version__' in dir(scipy), type(scipy), vars(scipy)['__name__'], bool(scipy))",
        ("scipy",),
    ),
    "changed": (
        "import scipy\nscipy.mine = 1\nprint(scipy.mine, scipy.__version__)\n"
        "del scipy.mine\nprint(hasattr(scipy, 'mine'))",
        ("scipy",),
    ),
    "forgotten and imported again": (
        "import scipy, sys\nold = scipy\ndel sys.modules['scipy']\nimport scipy\n"
        "print(scipy is old, old.__version__ == scipy.__version__)",
        ("scipy",),
    ),
    "spoilt search path": (
        "import scipy, sys\nsys.path.clear()\nsys.path_importer_cache.clear()\nprint('end')",
        None,
    ),
    "warning": (
        "import warnings, scipy\nwarnings.simplefilter('always')\n"
        "warnings.warn(f'from here {scipy.__version__}')",
        ("scipy",),
    ),
    "exception with its traceback": (
        "import scipy.linalg as la\ndef f():\n    return la.inv([[0.0]])\nf()",
        ("scipy", "scipy.linalg"),
    ),
    "module that its deferred package imports too": (
        "import scipy, scipy.sparse\nfrom scipy.sparse._csr import csr_array\n"
        "print(csr_array is scipy.sparse.csr_array, scipy.sparse._csr.__spec__.loader is not None)",
        ("scipy", "scipy.sparse"),
    ),
    "module of a deferred package, by name": (
        "import importlib, scipy, scipy.sparse\n"
        "found = importlib.import_module('scipy.sparse._csr')\n"
        "print(found.csr_array is scipy.sparse.csr_array, found.__spec__.origin == found.__file__)",
        ("scipy", "scipy.sparse"),
    ),
    "settings of matplotlib": (
        "import matplotlib\nimport matplotlib.pyplot as plt\nmatplotlib.use('Agg')\n"
        "plt.rcParams['lines.linewidth'] = 3\nfigure, axes = plt.subplots()\n"
        "print(axes.plot([1, 2])[0].get_linewidth(), plt.get_backend())",
        ("matplotlib", "matplotlib.pyplot"),
    ),
}  # fmt: skip


def outcome(command: list[str], folder: Path) -> tuple[int, bytes, bytes]:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, timeout=120,
        env={**os.environ, "PYTHONHASHSEED": "0", "MPLCONFIGDIR": str(folder)},
    )  # fmt: skip
    out, err = (re.sub(rb"0x[0-9a-f]{6,}", b"0x...", s) for s in (done.stdout, done.stderr))
    return done.returncode, out, err


def assert_same(arguments: list[str], folder: Path) -> None:
    plain = outcome([sys.executable, *arguments], folder)
    assert outcome([*LAZILY, *arguments], folder) == plain


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_does_the_same_with_lazy_imports(name: str, tmp_path: Path) -> None:
    source, deferred = PROGRAMS[name]
    for library in ("sklearn", "matplotlib", "cloudpickle"):
        if library in source:
            pytest.importorskip(library)
    (tmp_path / "program.py").write_text(source + "\n")
    assert_same(["program.py"], tmp_path)
    if deferred is not None:
        kept = record.of_program(str(tmp_path / "program.py"))
        assert tuple(kept.get("imports", ())) == deferred


def test_a_module_is_run_the_same(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("import scipy.special as special\nprint(__name__)\n")
    (package / "__main__.py").write_text(
        "import sys\nimport scipy\nfrom . import special\nprint(special.erf(0.0), sys.argv[1:])\n"
    )
    assert_same(["-m", "package", "a", "b"], tmp_path)
    assert "scipy" in record.last()["imports"]


def test_tests_are_run_the_same(tmp_path: Path) -> None:
    """Pytest warns of plugins that were imported before it, as gpuforge then is."""
    (tmp_path / "test_it.py").write_text(
        "import scipy.special\n"
        "def test_change(monkeypatch):\n"
        "    monkeypatch.setattr('scipy.special.erf', lambda x: 42)\n"
        "    assert scipy.special.erf(0.0) == 42\n"
        "def test_back():\n    assert scipy.special.erf(0.0) == 0.0\n"
    )
    assert_same(["-m", "pytest", "-qq", "-p", "no:cacheprovider", "-Werror"], tmp_path)


def test_a_module_of_the_users_that_is_imported_in_a_try(tmp_path: Path) -> None:
    """What the inner module imports would be caught by the handler of the outer one."""
    (tmp_path / "inner.py").write_text("import scipy\n")
    (tmp_path / "program.py").write_text(
        "try:\n    import inner\nexcept ImportError:\n    print('not there')\nprint(inner.scipy)\n"
    )
    assert_same(["program.py"], tmp_path)
    assert record.last() == {}


def test_a_file_of_the_users_with_the_name_of_a_library(tmp_path: Path) -> None:
    (tmp_path / "distributed.py").write_text("print('my own cluster begins')\n")
    (tmp_path / "program.py").write_text("import distributed\nprint('end')\n")
    assert_same(["program.py"], tmp_path)


def test_a_library_that_fails_is_imported_at_once_from_then_on(tmp_path: Path) -> None:
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "xgboost.py").write_text("raise OSError('it is damaged')\n")
    (tmp_path / "program.py").write_text(
        "import sys\nsys.path.append('site-packages')\nimport xgboost\n"
        "print('not reached by plain Python')\nxgboost.train()\n"
    )
    first = outcome([*LAZILY, "program.py"], tmp_path)
    assert first[0] == 1 and b"OSError: it is damaged" in first[2]
    assert "OSError" in record.switched_off()["xgboost"]
    assert_same(["program.py"], tmp_path)


def test_libraries_that_need_each_other_are_executed_once_by_two_threads(tmp_path: Path) -> None:
    for name, other in (("xgboost", "lightgbm"), ("lightgbm", "xgboost")):
        (tmp_path / "site-packages" / name).mkdir(parents=True)
        (tmp_path / "site-packages" / name / "part.py").touch()
        (tmp_path / "site-packages" / name / "__init__.py").write_text(
            f"import sys, time\nsys.stdout.write('{name} begins\\n')\ntime.sleep(0.2)\n"
            f"getattr(sys.modules['{other}'], 'value', None)\nimport {other}.part\nvalue = 1\n"
        )
    (tmp_path / "program.py").write_text(
        "import sys, threading\nsys.path.append('site-packages')\nimport xgboost\nimport lightgbm\n"
        "found = []\n"
        "threads = [threading.Thread(target=lambda: found.append(xgboost.value)),\n"
        "           threading.Thread(target=lambda: found.append(lightgbm.value))]\n"
        "for one in threads: one.start()\nfor one in threads: one.join()\nprint(found)\n"
    )
    status, out, err = outcome([*LAZILY, "program.py"], tmp_path)
    assert (status, err) == (0, b"")
    assert sorted(out.splitlines()) == [b"[1, 1]", b"lightgbm begins", b"xgboost begins"]


def test_a_reload_is_the_programs_first_use(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import importlib, scipy\nimportlib.reload(scipy)\n")
    assert_same(["program.py"], tmp_path)
    program = str(tmp_path / "program.py")
    assert record.of_program(program)["imports"]["scipy"]["used_at"] == f"{program}:2"


def test_a_library_may_wait_for_a_thread_that_uses_another(tmp_path: Path) -> None:
    (tmp_path / "site-packages" / "xgboost").mkdir(parents=True)
    (tmp_path / "site-packages" / "lightgbm.py").write_text("value = 1\n")
    (tmp_path / "site-packages" / "xgboost" / "__init__.py").write_text(
        "import sys, threading\n"
        "thread = threading.Thread(target=lambda: sys.modules['lightgbm'].value)\n"
        "thread.start()\nthread.join(10)\nhangs = thread.is_alive()\n"
    )
    (tmp_path / "program.py").write_text(
        "import sys\nsys.path.append('site-packages')\nimport lightgbm\nimport xgboost\n"
        "print(xgboost.hangs)\n"
    )
    assert_same(["program.py"], tmp_path)


def test_finding_a_module_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "site-packages" / "xgboost").mkdir(parents=True)
    (tmp_path / "site-packages" / "xgboost" / "part.py").touch()
    (tmp_path / "site-packages" / "xgboost" / "__init__.py").write_text("from . import part\n")
    (tmp_path / "program.py").write_text(
        "import sys, importlib.util\nsys.path.append('site-packages')\nimport xgboost\n"
        "print(importlib.util.find_spec('xgboost.part'))\n"
        "print(sys.modules['xgboost.part'].__spec__)\n"
    )
    assert_same(["program.py"], tmp_path)

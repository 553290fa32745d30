"""Imports that certainly fail are named, and no others."""

from __future__ import annotations

import collections
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from gpuforge.diagnose import lost_names, outgrown_imports, read_imports
from gpuforge.diagnose.distribution import distributions_in
from gpuforge.diagnose.finding import Finding
from gpuforge.diagnose.installed_modules import Modules
from gpuforge.diagnose.outgrown_imports import Walk
from gpuforge.diagnose.run import run_checks
from gpuforge.probe import LiveProbe

from .environments import Environment, make_wheel

LIBRARY = {
    "lib/__init__.py": "from .parts import *\nfrom . import tools\nkept = 1\n",
    "lib/parts.py": "def part(): pass\n",
    "lib/tools.py": "try:\n    import fast as tool\nexcept ImportError:\n    tool = None\n",
    "lib/sub/__init__.py": "",
}


@pytest.fixture(autouse=True)
def no_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(read_imports, "SECONDS", 60.0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def install(
    environment: Environment,
    folder: Path,
    name: str,
    files: dict[str, str],
    version: str = "2.0",
    requires: tuple[str, ...] = (),
) -> None:
    environment.add(make_wheel(folder, name, version, requires, files))


def found_in(*checks: str) -> list[Finding]:
    return list(run_checks(*checks or ("outgrown_packages",)).having("error", "warning", "unknown"))


def named(environment: Environment, folder: Path, text: str, library: dict[str, str]) -> list[str]:
    """Return what is found about a package with `text` beside a library."""
    install(environment, folder, "lib", library)
    install(environment, folder, "user", {"user.py": text}, "1.0")
    return [finding.message for finding in found_in()]


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("from lib import gone", "lib.gone"),
        ("from lib import (\n    kept,  # kept\n    gone as other,\n)", "lib.gone"),
        ("from lib import part, \\\n    gone", "lib.gone"),
        ("from lib.tools import gone", "lib.tools.gone"),
        ("from lib.old import anything", "the module lib.old"),
        ("import lib.old as old", "the module lib.old"),
        ("import lib\nVALUE = lib.gone", "lib.gone"),
        ("import lib as l\nclass C(l.Gone): pass", "lib.Gone"),
        ("import lib\n@lib.gone\ndef f(): pass", "lib.gone"),
        ("import lib\ndef f(x=lib.gone): pass", "lib.gone"),
        ("import lib\nclass C:\n    value = [lib.gone]", "lib.gone"),
        ("from lib import tools\nVALUE = tools.gone", "lib.tools.gone"),
    ],
)
def test_import_that_fails_is_named(
    text: str, needs: str, environment: Environment, tmp_path: Path
) -> None:
    (message,) = named(environment, tmp_path, text + "\n", LIBRARY)
    assert message == f"user 1.0 needs {needs}, which lib 2.0 does not have; it cannot be imported"


@pytest.mark.parametrize(
    "text",
    [
        "from lib import kept, part, tools, sub",
        "from lib.tools import tool",
        "from lib import *",
        "try:\n    from lib import gone\nexcept ImportError:\n    gone = None",
        "import sys\nif sys.version_info < (3, 0):\n    from lib import gone",
        '"""Example:\n\nfrom lib import gone\n"""',
        "import lib\nVALUE = lib.gone if hasattr(lib, 'gone') else None",
        "import lib\nVALUE = hasattr(lib, 'gone') and lib.gone",
        "import lib\nVALUE = lambda: lib.gone",
        "from __future__ import annotations\nimport lib\ndef f(x: lib.gone): pass",
        "import lib\nlib.gone = 1\nVALUE = lib.gone",
        "import lib\nsetattr(lib, 'gone', 1)\nfrom lib import gone",
        "import sys\nsys.modules['lib.old'] = sys\nimport lib.old",
        "import lib\nlib = object()\nVALUE = lib.gone",
        "import lib.tools as lib\nVALUE = lib.gone",
        "import lib\nfrom lib import tools as lib\nVALUE = lib.gone",
        "import lib\nclass lib:\n    gone = 1\nVALUE = lib.gone",
        "import lib  # lib.gone",
        "this is no Python",
    ],
)
def test_import_that_works_or_is_guarded_is_not_named(
    text: str, environment: Environment, tmp_path: Path
) -> None:
    assert not named(environment, tmp_path, text + "\n", LIBRARY)


GETATTR = "def __getattr__(name):\n"


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("", True),
        ("a = 1\n", True),
        ("if x:\n    gone = 1\n", False),
        ("for gone in x: pass\n", False),
        ("def f():\n    global gone\n    gone = 1\n", False),
        ("def f():\n    print(gone)\n", True),
        ("# gone\n", True),
        ("from a import (b, gone,\n    c)\n", False),
        ("from a import gone as c\n", True),
        ("globals().update(x)\n", False),
        ("globals()['a']\n", True),
        ("for n in ['a', 'b']:\n    globals()[n] = 1\n", True),
        ("for n in ['a', 'gone']:\n    globals()[n] = 1\n", False),
        ("import sys\nsys.modules[__name__] = x\n", False),
        (GETATTR + "    return 1\n", False),
        (GETATTR + "    raise AttributeError(name)\n", True),
        (GETATTR + "    if name == 'a':\n        return 1\n    raise AttributeError\n", True),
        (GETATTR + "    if name == 'gone':\n        return 1\n    raise AttributeError\n", False),
        ("A = {'gone': 1}\n" + GETATTR + "    if name in A: return A[name]\n    raise X\n", False),
        ("A = {'a': 1}\n" + GETATTR + "    if name in A: return A[name]\n    raise X\n", True),
        (GETATTR + "    if name in A: return A[name]\n    raise AttributeError\n", False),
        (GETATTR + "    if name in A: raise X\n    raise AttributeError\n", True),
        ("A = {'a'}\nA.add(x)\n" + GETATTR + "    if name in A: return 1\n    raise X\n", False),
        ("N = set(N)\n" + GETATTR + "    if name in N: return 1\n    raise X\n", False),
        (GETATTR + "    name = OLD.get(name)\n    if name == 'a': return 1\n    raise X\n", False),
        (GETATTR + "    fill()\n    return globals()[name]\n", False),
        ("match x:\n    case [gone]: pass\n", False),
        (GETATTR + "    try: return globals()[name]\n    except KeyError: raise X\n", True),
        ("__getattr__, __dir__, __all__ = lazy.attach(__name__, ['a'])\n", True),
        ("__getattr__, __dir__, __all__ = lazy.attach(__name__, ['gone'])\n", False),
        (
            "D = {'gone': ('it was removed', None)}\n__getattr__ = deprecation_getattr('m', D)\n",
            True,
        ),
        ("D = {'gone': ('it will be', x)}\n__getattr__ = deprecation_getattr('m', D)\n", False),
        ("__getattr__ = make()\n", False),
        ("make(  # it\n    __name__, {'lib': ['gone']})\n", False),
        ("make(\n    __name__, {'lib': ['a']})\n", True),
        ("from _socket import *\n", False),
        ("from unknown import *\n", False),
    ],
)
def test_names_of_a_module(text: str, lacks: bool, tmp_path: Path) -> None:
    (tmp_path / "mod.py").write_text(text)
    assert Modules([tmp_path], None, "3.11").lacks("mod", "gone") == lacks


def test_package_comes_before_a_file_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "mod.py").write_text("")
    (tmp_path / "mod").mkdir()
    assert Modules([tmp_path], None, "3.11").lacks("mod", "gone")
    (tmp_path / "mod" / "__init__.py").write_text("gone = 1\n")
    assert not Modules([tmp_path], None, "3.11").lacks("mod", "gone")


def test_no_name_of_pythons_modules_is_said_to_be_missing() -> None:
    """What these modules really have is a hard test: many compute it."""
    folder = Path(collections.__file__).parents[1]
    modules = Modules([], folder, ".".join(map(str, sys.version_info[:3])))
    names = ("asyncio", "collections", "ctypes", "datetime", "decimal", "enum", "functools", "re",
             "inspect", "json", "os", "pathlib", "pickle", "signal", "socket", "ssl", "string",
             "tokenize", "typing", "unittest", "concurrent.futures", "multiprocessing")  # fmt: skip
    for name in names:
        module = __import__(name, fromlist=["x"])
        assert [n for n in dir(module) if modules.lacks(name, n)] == [], name


@pytest.mark.parametrize(
    ("python", "text", "needs"),
    [
        ("3.12.1", "import imp\n", "imp."),
        ("3.11.1", "import imp\n", ""),
        ("3.12.1", "import distutils.core\n", "distutils.core."),
        ("3.12.1", "from collections import Mapping\n", "collections.Mapping"),
        (
            "3.12.1",
            "import collections\nclass C(collections.Mapping): pass\n",
            "collections.Mapping",
        ),
        ("3.12.1", "from collections import abc, deque\n", ""),
    ],
)
def test_what_python_no_longer_has(python: str, text: str, needs: str, tmp_path: Path) -> None:
    library, packages = tmp_path / "python", tmp_path / "packages"
    (library / "collections").mkdir(parents=True)
    (library / "collections" / "__init__.py").write_text("class deque: pass\n")
    (library / "collections" / "abc.py").write_text("")
    with zipfile.ZipFile(make_wheel(tmp_path, "user", "1.0", (), {"user.py": text})) as archive:
        archive.extractall(packages)
    (one,) = distributions_in(packages, LiveProbe())
    faults = Walk(one, Modules([packages], library, python), 0).faults()
    assert [f"{fault.module}.{fault.name}" for fault in faults] == [needs] * bool(needs)


def test_package_whose_script_fails_is_named(environment: Environment, tmp_path: Path) -> None:
    install(environment, tmp_path, "lib", LIBRARY)
    files = {
        "user/__init__.py": "import os\n",
        "user/cli.py": "from lib import gone\n",
        "user-1.0.dist-info/entry_points.txt": "[console_scripts]\nu = user.cli:main\n",
    }
    install(environment, tmp_path, "user", files, "1.0", ("middle",))
    assert not found_in(), "it does not require the library"
    install(environment, tmp_path, "middle", {"middle.py": ""}, "1.0", ("lib",))
    (finding,) = found_in()
    assert finding.state == "warning" and finding.message.endswith("importing user.cli fails")
    assert finding.evidence[0].endswith("user/cli.py, line 1")
    assert "pip install --upgrade user" in finding.steps[0]


def test_import_of_what_is_not_installed_is_named(environment: Environment, tmp_path: Path) -> None:
    install(environment, tmp_path, "user", {"user.py": "import os\nfrom yaml import load\n"})
    (finding,) = found_in()
    assert (finding.state, finding.cause) == ("warning", "requirement_missing")
    assert finding.message == (
        "user 2.0 imports yaml, which is not installed; it cannot be imported"
    )
    assert finding.evidence[0].endswith("user.py, line 2")
    assert finding.steps == ("Install the package that has this module: pip install PyYAML",)
    install(environment, tmp_path, "pyyaml", {"yaml.py": "def load(): pass\n"})
    assert not found_in(), "it is read again once the module is there"


@pytest.mark.parametrize(
    "files",
    [
        {"user.py": "try:\n    import absent\nexcept ImportError:\n    absent = None\n"},
        {"user.py": "", "_user_plugin.py": "import absent\n"},
        {"user.py": "import __main__\n"},
        {"user.py": "import urllib2\n"},
        {"user/__init__.py": "", "user/plot.py": "import absent\n"},
        {"user/__init__.py": "import sys\nsys.path.append('vendor')\nimport absent\n"},
        {"user.py": "import absent\n", "user.pth": "{elsewhere}\n"},
        {"user.py": "import absent\n", "user.pth": "import user_finder\n",
         "user_finder.py": "MAPPING = {'absent': 'src/absent'}\n"},
    ],
    ids=["guarded", "plugin", "running program", "Python 2", "submodule", "vendored",
         "in a .pth folder", "editable"],
)  # fmt: skip
def test_import_of_what_is_not_installed_but_may_work_is_not_named(
    files: dict[str, str], environment: Environment, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "absent.py").write_text("")
    filled = {name: text.replace("{elsewhere}", str(elsewhere)) for name, text in files.items()}
    install(environment, tmp_path, "user", filled)
    assert not found_in()


def test_what_another_package_requires_may_lack_what_it_imports(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(environment, tmp_path, "user", {"user.py": "import absent\n"})
    (tmp_path / "absent.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert not found_in()
    monkeypatch.delenv("PYTHONPATH")
    assert found_in()
    install(environment, tmp_path, "shell", {"shell.py": ""}, requires=("user",))
    assert not found_in(), "as IPython brings matplotlib-inline, and works without Matplotlib"


def test_a_submodule_that_a_package_imports_itself_is_read(
    environment: Environment, tmp_path: Path
) -> None:
    install(environment, tmp_path, "lib", LIBRARY)
    files = {
        "user/__init__.py": "from . import old\ndef run(): pass\nfrom . import cli\n",
        "user/cli.py": "from user import run\n",
        "user/run.py": "from lib import tools, other\n",  # a script beside the function
        "user/old.py": "from lib import gone\n",
    }
    install(environment, tmp_path, "user", files, "1.0")
    (message,) = [f.message for f in found_in() if "importing user.run" not in f.message]
    assert "lib.gone" in message and "it cannot be imported" in message


def test_modules_that_are_imported_in_a_docstring_or_a_try_are_not_named(
    environment: Environment, tmp_path: Path
) -> None:
    install(environment, tmp_path, "lib", LIBRARY)
    files = {
        "user/__init__.py": '"""Run:\n\nfrom user.cli import main\n"""\nfrom . import one\n',
        "user/one.py": "try:\n    from user import old\nexcept ImportError:\n    old = None\n",
        "user/cli.py": "import lib\nmain = lib.gone\n",
        "user/old.py": "from lib import gone\n",
    }
    install(environment, tmp_path, "user", files, "1.0")
    assert [f.message for f in found_in() if "importing user.cli" not in f.message] == []


def test_other_modules_are_read_if_the_check_is_named(
    environment: Environment, tmp_path: Path
) -> None:
    install(environment, tmp_path, "lib", LIBRARY)
    files = {
        "user/__init__.py": "import lib\n",
        "user/more.py": "from lib import gone\n",
        "user/_own.py": "import lib.old\n",
        "user/tests/test_it.py": "import lib.old\n",
    }
    install(environment, tmp_path, "user", files, "1.0", ("lib",))
    assert not [f for f in run_checks().findings if f.cause == "outgrown_package"]
    (finding,) = found_in()
    assert finding.message.endswith("importing user.more fails")
    (kept,) = [f for f in run_checks().findings if f.cause == "outgrown_package"]
    assert kept.message == finding.message


def test_what_was_read_is_kept_until_a_package_changes(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(environment, tmp_path, "lib", LIBRARY)
    install(environment, tmp_path, "user", {"user.py": "from lib import gone\n"}, "1.0")
    (first,) = found_in()
    walked: list[str] = []
    real = read_imports.Walk

    def walk(one: read_imports.Distribution, *rest: object) -> object:
        walked.append(one.name)
        return real(one, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(read_imports, "Walk", walk)
    assert [f.message for f in found_in()] == [first.message] and not walked
    (environment.packages / "lib" / "__init__.py").write_text("gone = 1\n")
    assert not found_in() and walked == ["user"]
    kept = next((tmp_path / "cache" / "gpuforge" / "doctor").glob("imports-*.json"))
    for damaged in ("", "00000000 {}", kept.read_text()[:-1]):
        kept.write_text(damaged)
        assert not found_in()


def test_reading_ends_in_time_and_goes_on_in_the_next_run(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_imports, "SECONDS", 0.0)
    install(environment, tmp_path, "lib", LIBRARY)
    install(environment, tmp_path, "user", {"user.py": "from lib import gone\n"}, "1.0", ("lib",))

    def left() -> list[str]:
        report = run_checks(skip=["package_versions"])
        return [f.message for f in report.having("skipped") if f.check == "outgrown_packages"]

    assert left() and "not read yet" in left()[0]
    monkeypatch.setattr(read_imports, "SECONDS", 60.0)
    assert not left() and found_in()


def test_folder_that_cannot_be_written_is_no_finding(
    environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert len(named(environment, tmp_path, "from lib import gone\n", LIBRARY)) == 1


def test_what_the_metadata_forbid_is_named_once(environment: Environment, tmp_path: Path) -> None:
    install(environment, tmp_path, "lib", LIBRARY)
    install(environment, tmp_path, "user", {"user.py": "import lib.old\n"}, "1.0", ("lib<2",))
    assert not found_in()
    assert [f.check for f in found_in("outgrown_packages", "package_versions")] == [
        "package_versions"
    ]


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("import pkgutil\nregister(pkgutil.ImpGone, 1)", "pkgutil.ImpGone"),
        ("from time import clock", "time.clock"),
        ("import sys\nLARGE = sys.maxint", "sys.maxint"),
        ("from itertools import izip", "itertools.izip"),
        ("print 'hello'", "syntax of an older Python"),
        ("def f(async=True): pass", "syntax of an older Python"),
        ("raise OSError, 'it failed'", "syntax of an older Python"),
    ],
)
def test_what_python_itself_lost_is_named(
    text: str, needs: str, environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An invented name: which ones this Python lost depends on its version.
    monkeypatch.setitem(outgrown_imports._LOST, "pkgutil", {"ImpGone"})
    (message,) = named(environment, tmp_path, text + "\n", LIBRARY)
    assert message.startswith(f"user 1.0 needs {needs}, which Python 3")


@pytest.mark.parametrize(
    "text",
    [
        "import time\nclock = getattr(time, 'clock', time.perf_counter)",
        "try:\n    from time import clock\nexcept ImportError:\n    from time import time",
        "import sys\nif sys.version_info[0] < 3:\n    LARGE = sys.maxint",
        "TEXT = '''\nprint 'hello'\n'''",
        "import pkgutil\nVALUE = pkgutil.iter_modules",
    ],
)
def test_what_a_package_does_instead_is_not_named(
    text: str, environment: Environment, tmp_path: Path
) -> None:
    assert not named(environment, tmp_path, text + "\n", LIBRARY)


def test_packages_of_old_releases_come_first(environment: Environment, tmp_path: Path) -> None:
    fields = {
        "old": "Classifier: Programming Language :: Python :: 3.7",
        "new": "Requires-Python: >=3.10",
        "newer": "Classifier: Programming Language :: Python :: 3.14",
        "older": "Requires-Python: >=3.5",
    }
    for name, field in fields.items():
        install(environment, tmp_path, name, {f"{name}.py": ""}, requires=("pip",))
        path = next(environment.packages.glob(f"{name}-*.dist-info")) / "METADATA"
        path.write_text(path.read_text() + field + "\n")
    found = distributions_in(environment.packages, LiveProbe())
    ordered = sorted((one for one in found if one.name in fields), key=read_imports._age)
    assert [one.name for one in ordered] == ["old", "older", "new", "newer"]


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let it be known that the library once had what it lacks."""
    monkeypatch.setitem(lost_names.LOST, "lib", (("lib", ">=2", "gone"),))


LATE = "lib.gone, which lib 2.0 does not have; a function in user.py fails"


@pytest.mark.parametrize(
    "text",
    [
        "import lib\ndef f():\n    return lib.gone",
        "import lib\nclass C:\n    def f(self, x):\n        if x:\n            return lib.gone(x)",
        "def f():\n    from lib import gone",
        "def f():\n    from lib import (kept,\n        gone)",
    ],
)
def test_function_that_certainly_fails_is_named(
    text: str, environment: Environment, tmp_path: Path, lost: None
) -> None:
    install(environment, tmp_path, "lib", LIBRARY)
    install(environment, tmp_path, "user", {"user.py": text + "\n"}, "1.0")
    (finding,) = found_in()
    assert finding.state == "warning" and finding.message == f"user 1.0 needs {LATE}"


@pytest.mark.parametrize(
    "text",
    [
        "import lib\ndef f():\n    try:\n        return lib.gone\n    except Exception: pass",
        "import lib\ndef f():\n    return lib.gone if hasattr(lib, 'gone') else 1",
        "import lib\ndef f():\n    if lib.__version__ < '2':\n        return lib.gone",
        "import lib\ndef f(lib):\n    return lib.gone",
        "import lib\ndef f():\n    lib = 1\n    return lib.gone",
        "import lib\ndef f():\n    'lib.gone'",
        "import lib\n@deprecated\ndef f():\n    return lib.gone",
        "import lib\ndef f():\n    if PY2:\n        return lib.gone",
        "import lib\ndef f():\n    return lambda lib: lib.gone",
        "def f():\n    try:\n        from lib import gone\n    except ImportError:\n        pass",
        "def f():\n    if compat_mode():\n        from lib import gone",
        "def f():\n    from lib import kept",
        "def f():\n    from absent import gone",
        "def f():\n    from dis import of_a_later_python",
    ],
)
def test_function_that_may_know_better_is_not_named(
    text: str, environment: Environment, tmp_path: Path, lost: None
) -> None:
    assert not named(environment, tmp_path, text + "\n", LIBRARY)


@pytest.mark.parametrize(
    "text",
    [
        "import lib\ndef f():\n    return lib.never_there",
        "def f():\n    from lib import never_there",
        "def f():\n    import lib.never_there",
        "def f():\n    from distutils.command.install import install",
    ],
)
def test_function_that_asks_for_what_never_was_there_is_not_named(
    text: str, environment: Environment, tmp_path: Path
) -> None:
    """Nobody calls it, or somebody would have noticed: scipy 1.17 asks for `numpy.zeroslike`."""
    assert not named(environment, tmp_path, text + "\n", LIBRARY)


def test_functions_of_modules_for_other_versions_are_not_named(
    environment: Environment, tmp_path: Path, lost: None
) -> None:
    install(environment, tmp_path, "lib", LIBRARY)
    files = {
        "user/__init__.py": "from user import _compat, testing, core",
        "user/_compat.py": "import lib\ndef f():\n    return lib.gone\n",
        "user/testing.py": "import lib\ndef f():\n    return lib.gone\n",
        "user/core.py": "",
    }
    install(environment, tmp_path, "user", files, "1.0")
    assert not found_in()


def test_modules_that_a_package_imports_under_a_condition_are_read_for_functions(
    environment: Environment, tmp_path: Path, lost: None
) -> None:
    install(environment, tmp_path, "lib", LIBRARY)
    files = {
        "user/__init__.py": "if SETUP:\n    pass\nelse:\n    from . import core\n",
        "user/core.py": "import lib\ndef f():\n    return lib.gone\n",
    }
    install(environment, tmp_path, "user", files, "1.0", ("lib",))
    found = [one for one in run_checks().having("warning") if one.check == "outgrown_packages"]
    assert [one.message for one in found] == [
        "user 1.0 needs lib.gone, which lib 2.0 does not have; a function in core.py fails"
    ]


@pytest.mark.parametrize(
    ("package", "version", "module", "text", "fails"),
    [
        ("numpy", "1.26.4", "numpy", "import numpy as np\nx = np.int", True),
        ("numpy", "1.23.5", "numpy", "import numpy as np\nx = np.int", False),
        ("numpy", "1.24.0", "numpy", "import numpy as np\nx = np.bool", True),
        ("numpy", "2.0.0", "numpy", "import numpy as np\nx = np.bool", False),
        ("numpy", "2.0.0", "numpy", "import numpy as np\nx = np.bool8", True),
        ("pillow", "10.0.0", "PIL/Image", "from PIL import Image\nx = Image.ANTIALIAS", True),
        ("pillow", "9.5.0", "PIL/Image", "from PIL import Image\nx = Image.ANTIALIAS", False),
        ("scipy", "1.3.0", "scipy/misc", "import scipy.misc\nx = scipy.misc.imread", True),
        ("tensorflow-cpu", "2.0.0", "tensorflow", "import tensorflow as tf\nx = tf.log", True),
        ("torch", "2.0.0", "torch", "from torch._six import string_classes", True),
        ("torch", "1.13.1", "torch", "from torch._six import string_classes", False),
    ],
)
def test_names_that_modules_compute_are_looked_up_by_version(
    package: str,
    version: str,
    module: str,
    text: str,
    fails: bool,
    environment: Environment,
    tmp_path: Path,
) -> None:
    computed = "import sys\nglobals().update(sys.modules)\n"
    path = f"{module}.py" if "/" in module else f"{module}/__init__.py"
    start = {} if "/" not in module else {f"{module.partition('/')[0]}/__init__.py": computed}
    install(environment, tmp_path, package, {**start, path: computed}, version)
    install(environment, tmp_path, "user", {"user.py": text + "\n"}, "1.0", (package,))
    assert bool(found_in()) == fails


def test_stub_that_provides_names_is_read(environment: Environment, tmp_path: Path) -> None:
    start = "import lazy\n__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)\n"
    files = {"lib/__init__.py": start, "lib/__init__.pyi": "from .parts import kept as kept\n"}
    install(environment, tmp_path, "lib", files)
    install(environment, tmp_path, "user", {"user.py": "from lib import kept\n"}, "1.0", ("lib",))
    assert not found_in()
    install(environment, tmp_path, "mine", {"mine.py": "from lib import gone\n"}, "1.0", ("lib",))
    assert ["lib.gone" in one.message for one in found_in()] == [True]


@pytest.mark.parametrize(("python", "is_named"), [("3.9", True), ("3.13", False)])
def test_function_of_a_newer_package_may_be_for_a_later_version(
    python: str, is_named: bool, environment: Environment, tmp_path: Path, lost: None
) -> None:
    install(environment, tmp_path, "lib", LIBRARY)
    install(environment, tmp_path, "user", {"user.py": "def f():\n    from lib import gone"}, "1.0")
    for info, newest in (("lib-2.0", "3.11"), ("user-1.0", python)):
        with open(environment.packages / f"{info}.dist-info" / "METADATA", "a") as metadata:
            metadata.write(f"Classifier: Programming Language :: Python :: {newest}\n")
    assert bool(found_in()) == is_named


def test_the_modules_of_a_package_that_imports_little_are_read(
    environment: Environment, tmp_path: Path
) -> None:
    install(environment, tmp_path, "lib", LIBRARY)
    files = {
        "user/__init__.py": "import os\nfrom ._version import version\n",
        "user/_version.py": "version = '1.0'\n",
        "user/more.py": "from lib import gone\n",
    }
    install(environment, tmp_path, "user", files, "1.0", ("lib",))
    (found,) = [f for f in run_checks().findings if f.cause == "outgrown_package"]
    assert found.message.endswith("importing user.more fails")


@pytest.mark.parametrize(
    ("exports", "lost"), [("", True), ("__all__ = ['a']\n", True), ("__all__ = ['_own']\n", False),
                          ("__all__ = names()\n", False), ("__all__ += ['a']\n", False)]
)  # fmt: skip
def test_a_private_name_does_not_come_with_all_names(
    environment: Environment, tmp_path: Path, exports: str, lost: bool
) -> None:
    files = {
        "lib/__init__.py": "from .inner import *\n",
        "lib/inner.py": f"_own = a = 1\n{exports}",
    }
    install(environment, tmp_path, "lib", files, "2.0")
    install(
        environment, tmp_path, "user", {"user.py": "from lib import _own, a\n"}, "1.0", ("lib",)
    )
    assert [f.message.count("lib._own") for f in found_in()] == [1] * lost


def test_pkg_resources_that_is_imported_further_inside_is_named(
    environment: Environment, tmp_path: Path
) -> None:
    """As tensorboard 2.10 does: https://github.com/pypa/setuptools/issues/5174."""
    for path in environment.packages.glob("setuptools*"):
        path.unlink() if path.is_symlink() else shutil.rmtree(path)
    (environment.packages / "pkg_resources").unlink()
    install(environment, tmp_path, "setuptools", {"setuptools/__init__.py": ""}, "82.0.0")
    files = {"user/__init__.py": "from . import deep\n", "user/deep.py": "import pkg_resources\n"}
    install(environment, tmp_path, "user", files, "1.0", ("setuptools>=41",))
    files = {"early/__init__.py": "import pkg_resources\n"}
    install(environment, tmp_path, "early", files, "1.0", ("setuptools",))
    first, second = found_in("outgrown_packages", "package_versions")
    assert first.message.startswith("user 1.0 needs the module pkg_resources, which setuptools 82")
    assert second.message.startswith("early 1.0 needs pkg_resources")


def test_own_module_that_never_was_there_brings_no_names(
    environment: Environment, tmp_path: Path
) -> None:
    """transformers 4.40 has such a line, which only type checkers read."""
    text = "from .parts import *\nif TYPE_CHECKING:\n    from .misspelt import *\n"
    library = LIBRARY | {"lib/__init__.py": text}
    assert len(named(environment, tmp_path, "from lib import gone\n", library)) == 1


def test_failure_of_the_import_is_told_rather_than_that_of_a_function(
    environment: Environment, tmp_path: Path
) -> None:
    install(environment, tmp_path, "numpy", {"numpy/__init__.py": ""}, "2.4.0")
    text = "import numpy as np\ndef f():\n    return np.string_('a')\nnp.bool8\n"
    install(environment, tmp_path, "user", {"user.py": text}, "1.0", ("numpy",))
    (finding,) = found_in()
    assert finding.state == "error" and "bool8" in finding.message


def test_package_for_a_newer_python_is_not_said_to_be_for_an_older_one(
    environment: Environment, tmp_path: Path
) -> None:
    """zarr 3.4 has generic functions, of which a line looks like syntax of Python 2."""
    text = "def first[T](x: list[T]) -> T: ...\nasync = [\n"
    install(environment, tmp_path, "user", {"user.py": text}, "1.0")
    assert [f.message for f in found_in()], "it is old, as far as is known"
    metadata = environment.packages / "user-1.0.dist-info" / "METADATA"
    metadata.write_text(f"{metadata.read_text()}Requires-Python: >=3.99\n")
    assert [f.check for f in found_in("outgrown_packages", "package_versions")] == [
        "package_versions"
    ]

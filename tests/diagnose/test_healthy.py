"""What looks odd in an environment and works is no finding."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuforge.cli.main import main

from .broken import make_conda
from .environments import Environment, make_wheel

NSPKG = (
    "import sys, types, os;has_mfs = sys.version_info > (3, 5);"
    "p = os.path.join(sys._getframe(1).f_locals['sitedir'], *('google',))\n"
)
DISTUTILS = (
    "import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled = os.environ.get(var, 'local') == "
    "'local'; enabled and __import__('_distutils_hack').add_shim();\n"
)


def made(
    environment: Environment,
    name: str,
    version: str,
    requires: tuple[str, ...] = (),
    files: dict[str, str] | None = None,
) -> None:
    shelf = environment.prefix.parent / "shelf"
    shelf.mkdir(exist_ok=True)
    environment.add(make_wheel(shelf, name, version, requires, files))


def editable_project(environment: Environment) -> None:
    project = environment.prefix.parent / "my projects" / "mine" / "src"
    project.mkdir(parents=True)
    made(environment, "mine", "1.0", files={"__editable__.mine-1.0.pth": f"{project}\n"})
    info = next(environment.packages.glob("mine-*.dist-info"))
    url = project.parent.as_uri()
    (info / "direct_url.json").write_text(json.dumps({"url": url, "dir_info": {"editable": True}}))


def installed_from_a_folder_that_is_gone(environment: Environment) -> None:
    made(environment, "mine", "1.0")
    info = next(environment.packages.glob("mine-*.dist-info"))
    (info / "direct_url.json").write_text('{"url": "file:///gone/mine", "dir_info": {}}')


def hooks(environment: Environment) -> None:
    for name, text in {
        "a1_coverage.pth": "import sys;exec('try:\\n import coverage\\nexcept ImportError: pass')",
        "google-nspkg.pth": NSPKG,
        "distutils-precedence.pth": DISTUTILS,
        "_virtualenv.pth": "import _virtualenv",
        "_virtualenv.py": "",
        "mine.pth": "# a comment\n\n../site-packages\n",
    }.items():
        (environment.packages / name).write_text(text)
    (environment.packages / "_distutils_hack").mkdir(exist_ok=True)  # of setuptools


def a_namespace_of_setuptools_with_its_folder(environment: Environment) -> None:
    (environment.packages / "google" / "cloud").mkdir(parents=True)
    line = NSPKG.strip().replace("('google',)", "('google', 'cloud')") + ";module_from_spec(None)"
    (environment.packages / "google-nspkg.pth").write_text(f"{line}\n")


def a_folder_and_a_file_of_one_package(environment: Environment) -> None:
    made(environment, "mine", "1.0", files={"mine/__init__.py": "", "mine.py": ""})
    made(environment, "nvidia-ml-py", "13.0.0", files={"pynvml.py": ""})
    made(environment, "pynvml", "13.0.0", ("nvidia-ml-py",), {"pynvml_utils/__init__.py": ""})


def parts_of_a_namespace_of_which_one_is_empty(environment: Environment) -> None:
    made(environment, "azure-core", "1.0", files={"azure/__init__.py": "", "azure/a.py": ""})
    made(environment, "azure-nspkg", "2.0", files={"azure/__init__.py": "__path__ = 1"})
    (environment.packages / "azure" / "__init__.py").write_text("")
    for record in environment.packages.glob("azure*/RECORD"):
        text = record.read_text()
        record.write_text(text.replace("__init__.py,,", f"__init__.py,sha256={len(text)},0"))


def a_package_changed_by_hand(environment: Environment) -> None:
    made(environment, "pandas", "2.3.3", files={"pandas/__init__.py": "", "pandas/a.py": "x = 1"})
    (environment.packages / "pandas" / "a.py").write_text("x = 2  # mine")


def modules_for_several_pythons(environment: Environment) -> None:
    files = {f"debugpy/c.cpython-3{minor}-x86_64-linux-gnu.so": "x" for minor in (6, 7, 8)}
    made(environment, "debugpy", "1.8.0", files=files)  # its wheel says that it is for any


def conda_with_packages_of_pip(environment: Environment) -> None:
    make_conda(environment)
    made(environment, "numpy", "2.4.0")
    made(environment, "six", "1.16.0")
    (next(environment.packages.glob("numpy-*.dist-info")) / "INSTALLER").write_text("conda\n")
    for record in ("numpy-2.4.0-py311h_0", "six-1.16-pyhd_1", "libblas-3.9.0-16_openblas"):
        (environment.prefix / "conda-meta" / f"{record}.json").write_text("{}")


def packages_of_the_user_that_a_venv_does_not_see(environment: Environment) -> None:
    made(environment, "numpy", "2.4.6")
    library = environment.prefix.parent / ".local" / "lib" / environment.packages.parent.name
    (library / "site-packages" / "numpy-1.24.0.dist-info").mkdir(parents=True)


def builds_of_one_kind(environment: Environment) -> None:
    made(environment, "torch", "2.9.0+cpu")
    made(environment, "torchvision", "0.24.0+cpu", ("torch==2.9.0",))


def builds_of_a_vendor_or_of_ones_own(environment: Environment) -> None:
    made(environment, "torch", "2.9.0a0+50eac811a6.nv25.09")
    made(environment, "torchvision", "0.24.0a0+98f8b37")
    made(environment, "torchaudio", "2.9.0")


def an_extra_that_nobody_asked_for(environment: Environment) -> None:
    lines = ("nvidia-cublas-cu12==12.3.4.1", "nvidia-cuda-nvcc-cu12==12.3.107")
    made(environment, "tensorflow", "2.16.1", tuple(f"{one}; extra == 'and-cuda'" for one in lines))
    made(environment, "nvidia-cublas-cu12", "12.8.4.1")


def another_wheel_with_the_same_module(environment: Environment) -> None:
    made(environment, "imgaug", "0.4.0", ("opencv-python",))
    made(environment, "opencv-python-headless", "4.11.0.86", files={"cv2/__init__.py": ""})


def modules_that_were_packed_by_mistake(environment: Environment) -> None:
    """Setuptools takes every module beside setup.py, so several packages install these."""
    for name in ("one", "two"):
        made(environment, name, "1.0", files={"versioneer.py": f"# {name}", "helpers.py": ""})
        record = environment.packages / f"{name}-1.0.dist-info" / "RECORD"
        record.write_text(record.read_text().replace("r.py,,", f"r.py,sha256={name},"))


def a_site_of_ones_own(environment: Environment) -> None:
    text = "import os\nimport mine\ntry:\n    import not_there\nexcept ImportError:\n    pass\n"
    made(environment, "mine", "1.0", files={"mine.py": "", "sitecustomize.py": text})


def generated_code_for_several_versions(environment: Environment) -> None:
    old, new = "DESCRIPTOR = _descriptor.FileDescriptor()\n", "# Protobuf Python Version: 5.29.0\n"
    files = {"mine/__init__.py": "", "mine/v3/a_pb2.py": old, "mine/v5/a_pb2.py": new}
    made(environment, "mine", "1.0", files=files)
    made(environment, "protobuf", "5.29.3")


def settings_of_pip(environment: Environment) -> None:
    text = "[freeze]\nuser = true\n[global]\n# user = true\nno-cache-dir = false\n"
    (environment.prefix / "pip.conf").write_text(text)


def packages_beside_that_hide_none(environment: Environment) -> None:
    """Name the folder of ROS, whose packages are no others of the environment."""
    folder = environment.prefix.parent / "ros" / "dist-packages"
    (folder / "rclpy").mkdir(parents=True)
    (folder / "rclpy-3.3.9.egg-info").mkdir()
    made(environment, "numpy", "2.4.6")


def the_sources_of_what_is_installed(environment: Environment) -> None:
    project = environment.prefix.parent
    (project / "pyproject.toml").touch()
    for name in ("plain", "built"):
        (project / name).mkdir()
        (project / name / "__init__.py").touch()
        made(environment, name, "1.0", files={f"{name}/__init__.py": "", f"{name}/a.so": "x"}
             if name == "built" else {f"{name}/__init__.py": ""})  # fmt: skip
    (project / "built" / "a.so").write_text("x")


def a_backend_that_is_installed(environment: Environment) -> None:
    made(environment, "matplotlib", "3.11.2")
    made(environment, "matplotlib-inline", "0.1.7")


def what_still_finds_pkg_resources(environment: Environment) -> None:
    text = "import pkg_resources\n"
    made(environment, "mine", "1.0", files={"mine/__init__.py": text, "pkg_resources/a.py": ""})


HARMLESS = {"OMP_NUM_THREADS": "4,2", "NUMBA_NUM_THREADS": "",
            "PYTHONPATH": "{beside}/ros/dist-packages",
            "MPLBACKEND": "module://matplotlib_inline.backend_inline"}  # fmt: skip


@pytest.mark.parametrize(
    "prepare",
    [
        editable_project,
        installed_from_a_folder_that_is_gone,
        hooks,
        a_package_changed_by_hand,
        modules_for_several_pythons,
        conda_with_packages_of_pip,
        packages_of_the_user_that_a_venv_does_not_see,
        builds_of_one_kind,
        builds_of_a_vendor_or_of_ones_own,
        an_extra_that_nobody_asked_for,
        another_wheel_with_the_same_module,
        modules_that_were_packed_by_mistake,
        a_site_of_ones_own,
        generated_code_for_several_versions,
        settings_of_pip,
        packages_beside_that_hide_none,
        the_sources_of_what_is_installed,
        a_backend_that_is_installed,
        what_still_finds_pkg_resources,
        a_namespace_of_setuptools_with_its_folder,
        a_folder_and_a_file_of_one_package,
        parts_of_a_namespace_of_which_one_is_empty,
    ],
)
def test_nothing_is_found(
    prepare: Callable[[Environment], None],
    environment: Environment,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HOME", str(environment.prefix.parent))
    monkeypatch.setenv("PIP_CACHE_DIR", str(environment.prefix.parent / "cache"))
    for name, value in HARMLESS.items():
        monkeypatch.setenv(name, value.format(beside=environment.prefix.parent))
    prepare(environment)
    if (environment.prefix / "conda-meta").is_dir():
        monkeypatch.delenv("VIRTUAL_ENV")
        monkeypatch.setenv("CONDA_PREFIX", str(environment.prefix))
    assert Path.home() == environment.prefix.parent
    main(["doctor", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["environment"]["prefix"] == str(environment.prefix)
    bad = [f for f in document["findings"] if f["state"] not in ("ok", "skipped")]
    assert [
        f for f in bad if f["check"] not in ("disk_space", "shared_memory", "host_memory")
    ] == []

"""Environments broken as people break them: what is installed, what is done, what is at fault.

Real packages are named by requirements that pip installs from its index; those made by hand stand
for what needs a GPU or gigabytes. ``benchmarks/broken_environments.py`` goes through all of them,
the ordinary tests through those made by hand.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gpuforge.facts import Machine

from .environments import Environment, make_wheel
from .test_repairs import damage_cache, leave_remains, nvidia

Break = Callable[[Environment], None]
NVIDIA = ("nvidia-cublas-cu12==12.8.4.1", "nvidia-cudnn-cu12==9.10.2.21")
BLAS = {"nvidia/cublas/lib/libcublas.so.12": "library"}


@dataclass
class Broken:
    """One broken environment.

    Attributes
    ----------
    at_fault : texts one of which a finding that names the problem holds
    packages : requirements that pip installs together
    over : requirements that pip installs over them without looking at what they need
    made : wheels made by hand, installed: name, version, requirements
    offered : wheels made by hand that the index holds besides
    files : what wheels made by hand hold
    imports : modules of the environment that are tried before and after a repair
    variables : ``{prefix}`` stands for the environment, ``{beside}`` for the folder around it
    """

    name: str
    at_fault: tuple[str, ...]
    packages: tuple[str, ...] = ()
    over: tuple[str, ...] = ()
    made: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    offered: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    files: dict[str, dict[str, str]] = field(default_factory=dict)
    breaks: Break | None = None
    machine: Machine | None = None
    variables: dict[str, str] = field(default_factory=dict)
    imports: tuple[str, ...] = ()

    @property
    def is_real(self) -> bool:
        """Whether it is made of packages of an index."""
        return bool(self.packages)


def delete(*paths: str) -> Break:
    def breaks(environment: Environment) -> None:
        for path in paths:
            for found in [*environment.packages.glob(path)]:
                is_folder = found.is_dir() and not found.is_symlink()
                shutil.rmtree(found) if is_folder else found.unlink()

    return breaks


def write(path: str, text: str = "") -> Break:
    """Put a file where one is: the old one is removed, as a hard link may share it."""

    def breaks(environment: Environment) -> None:
        for found in [*environment.packages.glob(path)] or [environment.packages / path]:
            found.unlink(missing_ok=True)
            found.parent.mkdir(parents=True, exist_ok=True)
            found.write_text(text)

    return breaks


def cut(path: str, share: float = 0.5) -> Break:
    def breaks(environment: Environment) -> None:
        found = next(environment.packages.glob(path))
        content = found.read_bytes()
        found.unlink()
        found.write_bytes(content[: int(len(content) * share)])

    return breaks


def interrupt(name: str) -> Break:
    """Leave a package as pip does that was stopped between removing it and installing another."""

    def breaks(environment: Environment) -> None:
        for path in environment.packages.glob(f"{name}*"):
            path.rename(path.with_name(f"~{path.name[1:]}"))

    return breaks


def for_windows(environment: Environment) -> None:
    wheel = environment.packages / "mine-1.0.dist-info" / "WHEEL"
    wheel.write_text("Wheel-Version: 1.0\nTag: cp311-cp311-win_amd64\n")


def delete_half(folder: str) -> Break:
    def breaks(environment: Environment) -> None:
        for path in sorted((environment.packages / folder).rglob("*.py"))[::2]:
            path.unlink()

    return breaks


def beside(name: str, text: str = "x = 1\n") -> Break:
    """Write a file into the current folder, the one around the environment."""

    def breaks(environment: Environment) -> None:
        path = environment.prefix.parent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return breaks


def second_record(environment: Environment) -> None:
    info = next(environment.packages.glob("pandas-*.dist-info"))
    shutil.copytree(info, info.with_name("pandas-2.0.0.dist-info"))


def lose_python(environment: Environment) -> None:
    for link in (environment.prefix / "bin").glob("python*"):
        link.unlink()
        link.symlink_to("/opt/python-that-was/bin/python3")


def upgrade_python(environment: Environment) -> None:
    library = environment.packages.parent
    library.rename(library.with_name("python3.8"))
    (environment.prefix / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.8.10\n")


def lose_pip(environment: Environment) -> None:
    delete("pip", "pip-*.dist-info")(environment)


def lock(environment: Environment) -> None:
    environment.packages.chmod(0o555)


def other_site_packages(environment: Environment) -> None:
    folder = environment.prefix.parent / "other" / "site-packages"
    shutil.copytree(next(environment.packages.glob("numpy-*.dist-info")),
                    folder / "numpy-1.19.0.dist-info")  # fmt: skip
    (folder / "numpy").mkdir()


def flip_in_cache(environment: Environment) -> None:
    folder = Path(os.environ["PIP_CACHE_DIR"]) / "wheels" / "ab" / "cd"
    folder.mkdir(parents=True)
    content = make_wheel(folder, "torch", "2.9.0", files={"torch/a.py": "x = 1\n" * 99})
    data = bytearray(content.read_bytes())
    data[60] ^= 0xFF
    content.write_bytes(bytes(data))


def cut_download(environment: Environment) -> None:
    folder = Path(os.environ["PIP_CACHE_DIR"]) / "http-v2" / "a" / "b"
    folder.mkdir(parents=True)
    wheel = make_wheel(folder, "torch", "2.9.0", files={"torch/a.py": "x = 1\n" * 99})
    (folder / "abcdef.body").write_bytes(wheel.read_bytes()[:200])
    wheel.unlink()


def make_conda(environment: Environment) -> None:
    (environment.prefix / "conda-meta").mkdir()
    (environment.prefix / "conda-meta" / "history").touch()


def install_for_the_user(environment: Environment) -> None:
    make_conda(environment)
    folder = environment.prefix.parent / ".local" / "lib" / environment.packages.parent.name
    info = folder / "site-packages" / "numpy-1.24.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: numpy\nVersion: 1.24.0\n")


def replace_by_pip(environment: Environment) -> None:
    make_conda(environment)
    (environment.prefix / "conda-meta" / "numpy-2.4.6-py311h_0.json").write_text("{}")


def editable(environment: Environment) -> None:
    """Make `mine` an editable package whose project is gone."""
    gone = environment.prefix.parent / "projects" / "mine"
    info = next(environment.packages.glob("mine-*.dist-info"))
    table = {"url": f"file://{gone}", "dir_info": {"editable": True}}
    (info / "direct_url.json").write_text(json.dumps(table))
    with open(info / "RECORD", "a") as record:
        record.write(f"{info.name}/direct_url.json,,\n")


def move(environment: Environment) -> None:
    for path in (environment.prefix / "bin").glob("pip*"):
        path.write_text(f"#!{environment.prefix}/bin/python3\nimport pip\n")
    environment.prefix.rename(environment.prefix.with_name("moved"))


def install_as_root(environment: Environment) -> None:
    next(environment.packages.glob("numpy-*.dist-info")).chmod(0o555)


def upgrade_half(environment: Environment) -> None:
    """Leave what an install of another version replaced before it was broken off."""
    version = environment.packages / "numpy" / "version.py"
    digest = hashlib.sha256(version.read_bytes()).digest()
    record = next(environment.packages.glob("numpy-*.dist-info/RECORD"))
    text = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    record.write_text(record.read_text().replace("/version.py,,", f"/version.py,sha256={text},20"))
    os.utime(record, ns=(version.stat().st_mtime_ns,) * 2)
    write("numpy/version.py", "version = '1.26.4'\n")(environment)


def for_another_python(environment: Environment) -> None:
    text = "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp36-cp36m-manylinux1_x86_64\n"
    write("numpy-*.dist-info/WHEEL", text)(environment)


def for_another_machine(environment: Environment) -> None:
    """Install what was built for another processor, as a copied layer of an image does."""
    argv = [environment.prefix / "bin" / "python", "-m", "pip", "install", "-q", "--upgrade",
            "--target", environment.packages, "--platform", "manylinux_2_28_aarch64",
            "--only-binary=:all:", "--no-deps", NUMPY]  # fmt: skip
    subprocess.run(argv, check=True, capture_output=True)


def empty(path: str) -> Break:
    """Empty a file, as an install on a full disk does; its folder does not change after that."""

    def breaks(environment: Environment) -> None:
        found = environment.packages / path
        before = found.parent.stat()
        write(path)(environment)
        os.utime(found.parent, ns=(before.st_atime_ns, before.st_mtime_ns))

    return breaks


def lose_setuptools(environment: Environment) -> None:
    delete("setuptools", "setuptools-*", "_distutils_hack", "pkg_resources")(environment)
    write("distutils-precedence.pth", DISTUTILS)(environment)


def rename_editable(environment: Environment) -> None:
    """Install a project in its own folder, then rename its package there."""
    project = environment.prefix.parent / "project"
    (project / "before").mkdir(parents=True)
    (project / "before" / "__init__.py").touch()
    (project / "pyproject.toml").write_text("[project]\nname = 'before'\nversion = '1'\n")
    argv = [environment.prefix / "bin" / "python", "-m", "pip", "install", "-q", "-e", project]
    subprocess.run(argv, check=True, capture_output=True)
    (project / "before").rename(project / "after")


def made_again_by_another_python(environment: Environment) -> None:
    """Leave the packages in the folder of an older Python, as venv does without --clear."""
    library = environment.packages.parent
    library.rename(library.with_name("python3.9"))
    (library / "site-packages").mkdir(parents=True)


def another_python_first(environment: Environment) -> None:
    folder = environment.prefix.parent / "first"
    folder.mkdir()
    for name in ("python", "python3", "pip"):
        (folder / name).symlink_to("/usr/bin/true")


def old_cxx_library(environment: Environment) -> None:
    """Copy the system's C++ library without the names of its newer interfaces."""
    folder = environment.prefix.parent / "old"
    folder.mkdir()
    found = next(p for p in Path("/usr/lib").rglob("libstdc++.so.6") if "32" not in str(p.parent))
    content = re.sub(rb"(GLIBCXX_3\.4\.)([12]\d|3\d)(?=\0)", rb"\1xx", found.read_bytes())
    (folder / "libstdc++.so.6").write_bytes(content)


DISTUTILS = (
    "import os; var = 'SETUPTOOLS_USE_DISTUTILS'; enabled = os.environ.get(var, 'local') == "
    "'local'; enabled and __import__('_distutils_hack')\n"
)


def record_contents(environment: Environment) -> None:
    """Give every file in the lists of packages a hash, another for each package, and a size."""
    for record in environment.packages.glob("*.dist-info/RECORD"):
        text = record.read_text().replace(",,", f",sha256={record.parent.name},9")
        record.write_text(text.replace("/RECORD,sha256=" + f"{record.parent.name},9", "/RECORD,,"))


def empty_by_hand(environment: Environment) -> None:
    record_contents(environment)
    empty("mine/__init__.py")(environment)


def lose_table(environment: Environment) -> None:
    delete("mine/table.json")(environment)
    os.utime(environment.packages / "mine-1.0.dist-info" / "RECORD", (1, 1))  # days before that


def all_of(*breaks: Break) -> Break:
    def together(environment: Environment) -> None:
        for one in breaks:
            one(environment)

    return together


def copied(environment: Environment) -> None:
    """Let pip start the Python of the environment that this one is a copy of."""
    other = environment.prefix.parent / "original"
    (other / "bin").mkdir(parents=True)
    (other / "pyvenv.cfg").touch()
    (other / "bin" / "python").symlink_to(sys.executable)
    (environment.prefix / "bin" / "pip").unlink()
    (environment.prefix / "bin" / "pip").write_text(f"#!{other}/bin/python\n")


def script_of_another_python_first(environment: Environment) -> None:
    (environment.prefix / "bin" / "pytest").write_text(f"#!{environment.prefix}/bin/python\n")
    beside("first/pytest", "#!/usr/bin/python3\nimport pytest\n")(environment)


def for_musl(environment: Environment) -> None:
    """Install what was built for Alpine, as a layer copied between images does."""
    argv = [environment.prefix / "bin" / "python", "-m", "pip", "install", "-q", "--upgrade",
            "--target", environment.packages, "--platform", f"musllinux_1_2_{platform.machine()}",
            "--only-binary=:all:", "--no-deps", NUMPY]  # fmt: skip
    subprocess.run(argv, check=True, capture_output=True)


def lose_configuration(environment: Environment) -> None:
    (environment.prefix / "pyvenv.cfg").unlink()


def configure_pip(environment: Environment) -> None:
    (environment.prefix / "pip.conf").write_text("[global]\ntimeout = 9\nuser = true\n")


def for_a_mainframe(environment: Environment) -> None:
    text = "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp311-cp311-manylinux1_s390x\n"
    write("mine-*.dist-info/WHEEL", text)(environment)


def replace_in(path: str, old: bytes, new: bytes) -> Break:
    """Write other bytes, as many, into a file that a hard link may share."""

    def breaks(environment: Environment) -> None:
        found = next(environment.packages.glob(path))
        content = found.read_bytes()
        assert old in content
        found.unlink()
        found.write_bytes(content.replace(old, new))

    return breaks


def old_zlib(environment: Environment) -> None:
    """Copy the system's zlib without the names of its newer interfaces."""
    folder = environment.prefix.parent / "old"
    folder.mkdir()
    found = next(p for p in Path("/usr/lib").rglob("libz.so.1") if "32" not in str(p.parent))
    content = re.sub(rb"ZLIB_1\.2\.(?=[2-9])", b"ZLIB_1.x.", found.read_bytes())
    (folder / "libz.so.1").write_bytes(content)


def path_in_utf16(environment: Environment) -> None:
    (environment.packages / "project.pth").write_text("/usr\n", encoding="utf-16")


def for_a_newer_python(environment: Environment) -> None:
    metadata = next(environment.packages.glob("mine-*.dist-info")) / "METADATA"
    metadata.write_text(metadata.read_text() + "Requires-Python: >=3.99\n")


def lose_ninja(environment: Environment) -> None:
    """Make `mine` a project that a program of pip's build environment builds at import."""
    editable(environment)
    (environment.prefix.parent / "projects" / "mine").mkdir(parents=True)
    text = "install({'mine'}, '/build', ['/tmp/pip-build-env-gone/overlay/bin/ninja'])\n"
    write("_mine_editable_loader.py", text)(environment)
    record = next(environment.packages.glob("mine-*.dist-info/RECORD"))
    record.write_text(record.read_text() + "_mine_editable_loader.py,,\n")


def build_without_lzma(environment: Environment) -> None:
    home = environment.prefix.parent / "python" / "bin"
    modules = home.parent / "lib" / environment.packages.parent.name / "lib-dynload"
    modules.mkdir(parents=True)
    for name in ("_bz2", "_ctypes", "_sqlite3", "_ssl", *(f"_m{n}" for n in range(40))):
        (modules / f"{name}.cpython-311.so").touch()
    settings = environment.prefix / "pyvenv.cfg"
    text = re.sub(r"(?m)^home = .*", f"home = {home}", settings.read_text())
    settings.write_text(text)


def keep_script(environment: Environment) -> None:
    text = "#!/home/me/old-venv/bin/python3\nfrom numpy.f2py.f2py2e import main\nmain()\n"
    (environment.prefix / "bin" / "f2py").write_text(text)


MUSL = f"cpython-{sys.version_info[0]}{sys.version_info[1]}-{platform.machine()}-linux-musl.so"
ENDING = f"cpython-{sys.version_info[0]}{sys.version_info[1]}-s390x-linux-gnu.so"
NUMPY = "numpy==2.4.6"
SCIENCE = ("numpy==2.4.6", "pandas==2.3.3", "scipy==1.17.1", "scikit-learn==1.9.1")
WEB = ("requests==2.34.2", "pydantic==2.14.3", "matplotlib==3.11.2")
OLD = "numpy==1.26.4"


def abi(package: str, module: str, *more: str) -> Broken:
    """Return an environment where NumPy 2 was put under a package compiled for NumPy 1."""
    name = package.partition("==")[0]
    return Broken(
        f"numpy2_under_{name}", (f"{name.lower()} ",), (package, OLD, *more), (NUMPY,),
        imports=("numpy", module),
    )  # fmt: skip


REAL = [
    abi("pandas==2.0.3", "pandas"),
    abi("h5py==3.8.0", "h5py"),
    abi("scipy==1.11.4", "scipy.sparse"),
    abi("scikit-learn==1.3.2", "sklearn.tree"),
    abi("numba==0.59.1", "numba"),
    abi("matplotlib==3.7.5", "matplotlib.path"),
    abi("bottleneck==1.3.7", "bottleneck"),
    abi("pywavelets==1.4.1", "pywt"),
    abi("numexpr==2.8.8", "numexpr"),
    abi("shapely==2.0.2", "shapely"),
    abi("statsmodels==0.14.1", "statsmodels.api"),
    abi("pyarrow==14.0.2", "pyarrow.lib"),
    abi("ml-dtypes==0.3.2", "ml_dtypes"),
    abi("netcdf4==1.6.5", "netCDF4"),
    abi("tables==3.9.2", "tables"),
    abi("scikit-image==0.22.0", "skimage.draw"),
    Broken("numpy_init_gone", ("numpy 2.4.6",), SCIENCE, breaks=delete("numpy/__init__.py"),
           imports=("numpy", "pandas", "scipy.sparse")),
    Broken("numpy_libs_gone", ("numpy 2.4.6",), SCIENCE, breaks=delete("numpy.libs"),
           imports=("numpy", "pandas")),
    Broken("compiled_module_cut", ("numpy 2.4.6",), SCIENCE,
           breaks=cut("numpy/_core/_multiarray_umath*.so"), imports=("numpy", "pandas")),
    Broken("compiled_module_empty", ("pandas 2.3.3",), SCIENCE,
           breaks=write("pandas/_libs/algos.*.so"), imports=("numpy", "pandas")),
    Broken("pandas_core_gone", ("pandas 2.3.3",), SCIENCE, breaks=delete("pandas/core"),
           imports=("numpy", "pandas")),
    Broken("scipy_half_deleted", ("scipy 1.17.1",), SCIENCE, breaks=delete_half("scipy"),
           imports=("numpy", "scipy.sparse", "sklearn")),
    Broken("one_module_gone", ("pandas 2.3.3",), SCIENCE,
           breaks=delete("pandas/core/frame.py"), imports=("pandas",)),
    Broken("package_folder_gone", ("scikit-learn 1.9.1",), SCIENCE, breaks=delete("sklearn"),
           imports=("sklearn", "scipy")),
    Broken("record_empty", ("pandas 2.3.3",), SCIENCE, breaks=write("pandas-*.dist-info/RECORD"),
           imports=("pandas",)),
    Broken("record_cut", ("numpy 2.4.6",), SCIENCE, breaks=cut("numpy-*.dist-info/RECORD"),
           imports=("numpy",)),
    Broken("record_gone", ("scipy 1.17.1",), SCIENCE, breaks=delete("scipy-*.dist-info/RECORD"),
           imports=("scipy",)),
    Broken("metadata_gone", ("numpy 2.4.6",), SCIENCE,
           breaks=delete("numpy-*.dist-info/METADATA"), imports=("numpy",)),
    Broken("metadata_empty", ("pandas 2.3.3",), SCIENCE,
           breaks=write("pandas-*.dist-info/METADATA"), imports=("pandas",)),
    Broken("description_gone", ("numpy",), SCIENCE, breaks=delete("numpy-*.dist-info"),
           imports=("numpy", "pandas")),
    Broken("two_records", ("pandas is installed in 2 versions",), SCIENCE, breaks=second_record,
           imports=("pandas",)),
    Broken("numpy_uninstalled", ("numpy",), SCIENCE,
           breaks=delete("numpy", "numpy.libs", "numpy-*.dist-info"), imports=("pandas", "scipy")),
    Broken("joblib_uninstalled", ("joblib",), SCIENCE, breaks=delete("joblib", "joblib-*"),
           imports=("sklearn", "pandas")),
    Broken("pillow_uninstalled", ("pillow",), WEB, breaks=delete("PIL", "pillow*"),
           imports=("matplotlib.pyplot", "requests")),
    Broken("urllib3_too_old", ("urllib3",), WEB, ("urllib3==1.25.11",), imports=("requests",)),
    Broken("typing_extensions_too_old", ("typing-extensions",), WEB,
           ("typing-extensions==4.5.0",), imports=("pydantic", "requests")),
    Broken("numpy_too_new_for_numba", ("numba",), ("numba==0.59.1", OLD), (NUMPY,),
           imports=("numba", "numpy")),
    Broken("shadowing_pandas", ("pandas.py",), SCIENCE, breaks=beside("pandas.py")),
    Broken("shadowing_json", ("json.py",), SCIENCE, breaks=beside("json.py")),
    Broken("shadowing_copy", ("copy.py",), SCIENCE, breaks=beside("copy.py")),
    Broken("shadowing_package", ("scipy/__init__.py",), SCIENCE,
           breaks=beside("scipy/__init__.py")),
    Broken("pythonpath_elsewhere", ("PYTHONPATH", "numpy 1.19.0"), SCIENCE,
           breaks=other_site_packages, variables={"PYTHONPATH": "{beside}/other/site-packages"}),
    Broken("opencv_twice", ("opencv-python and opencv-python-headless",),
           ("opencv-python==5.0.0.93", "opencv-python-headless==5.0.0.93"), imports=("cv2",)),
    Broken("opencv_headless_and_contrib", ("opencv-contrib-python",),
           ("opencv-contrib-python==5.0.0.93", "opencv-python-headless==5.0.0.93"),
           imports=("cv2",)),
    Broken("jaxlib_missing", ("jaxlib",), ("jax==0.10.2", "jaxlib==0.10.2"),
           breaks=delete("jaxlib", "jaxlib-*"), imports=("jax",)),
    # Importing it ends in "operator torchvision::nms does not exist"; its version names no build.
    Broken("torchvision_of_pypi_beside_torch_for_the_cpu", ("torch_extension_abi_mismatch",),
           ("torch==2.13.0+cpu", "torchvision==0.28.0", "numpy==2.4.6"),
           imports=("torch", "torchvision")),
    Broken("tokenizers_missing", ("tokenizers",), ("transformers==5.23.0",),
           breaks=delete("tokenizers", "tokenizers-*"), imports=("transformers",)),
    Broken("numpy_of_another_machine", ("aarch64",), (NUMPY,), breaks=for_another_machine,
           imports=("numpy",)),
    Broken("module_emptied_by_a_full_disk", ("pandas 2.3.3",), SCIENCE,
           breaks=empty("pandas/core/frame.py"), imports=("pandas", "numpy")),
    Broken("certificates_gone", ("certifi",), WEB, breaks=delete("certifi/cacert.pem"),
           imports=("requests",)),
    Broken("editable_package_renamed", ("before",), ("six",), breaks=rename_editable),
    Broken("jwt_beside_pyjwt", ("jwt and pyjwt",), ("jwt==1.3.1", "pyjwt==2.9.0"),
           imports=("jwt",)),
    Broken("pydantic_core_of_another_pydantic", ("pydantic-core",), WEB,
           ("pydantic-core==2.33.2",), imports=("pydantic", "requests")),
    Broken("pythonhome_of_another_python", ("PYTHONHOME",), (NUMPY,),
           imports=("numpy",), variables={"PYTHONHOME": "/usr"}),
    Broken("compiled_for_a_newer_glibc", ("GLIBC_2.99",), (NUMPY,), imports=("numpy",),
           breaks=replace_in("numpy/_core/_multiarray_umath*.so", b"GLIBC_2.27", b"GLIBC_2.99")),
    Broken("library_of_the_system_gone", ("libq.so.6",), (NUMPY,), imports=("numpy",),
           breaks=replace_in("numpy/_core/_multiarray_umath*.so", b"libm.so.6", b"libq.so.6")),
    Broken("zlib_too_old", ("libz.so.1",), ("opencv-python-headless==5.0.0.93",),
           breaks=old_zlib, imports=("cv2",), variables={"LD_LIBRARY_PATH": "{beside}/old"}),
    Broken("flag_of_another_xla", ("XLA_FLAGS",), ("jax==0.10.2", "jaxlib==0.10.2"),
           imports=("jax",),
           variables={"XLA_FLAGS": "--xla_gpu_enable_triton_softmax_fusion=true"}),
    Broken("cxx_library_too_old", ("libstdc++",), SCIENCE, breaks=old_cxx_library,
           imports=("numpy", "pandas"),
           variables={"LD_LIBRARY_PATH": "{beside}/old"}),
    Broken("numpy_for_musl", ("linux-musl",), (NUMPY,), breaks=for_musl, imports=("numpy",)),
    Broken("generated_code_of_protobuf_3", ("protobuf",),
           ("tensorboardX==2.1", "protobuf==7.36.2"), imports=("tensorboardX",)),
    Broken("setuptools_without_pkg_resources", ("pkg_resources",), ("fs==2.4.16",),
           ("setuptools==82.0.0",), imports=("fs",)),
    # Flask 2.2.2 asks for Werkzeug 2.2.2 or newer, and imports what version 3 took away.
    Broken("werkzeug_too_new_for_flask", ("werkzeug",), ("flask==2.2.2",), ("werkzeug==3.0.0",),
           imports=("flask",)),
]  # fmt: skip

CONDA = {"VIRTUAL_ENV": "", "CONDA_PREFIX": "{prefix}", "HOME": "{beside}"}


def leave_namespace(environment: Environment) -> None:
    (environment.packages / "google").mkdir()
    line = (
        "import sys, types, os;p = os.path.join(sys._getframe(1).f_locals['sitedir'], "
        "*('google', 'cloud'));m = importlib.util.module_from_spec(None)\n"
    )
    (environment.packages / "google_cloud-nspkg.pth").write_text(line)


def overwrite(environment: Environment) -> None:
    for record in environment.packages.glob("*.dist-info/RECORD"):
        text, of = record.read_text(), record.parent.name
        record.write_text(text.replace("__init__.py,,", f"__init__.py,sha256={of},9"))


MADE = [
    Broken("namespace_folder_gone", ("the namespace google.cloud has no folder any more",),
           breaks=leave_namespace),
    Broken("path_file_of_python_2", ("fails in line 1",),
           breaks=write("old.pth", "import sys; print 'hello'\n")),
    Broken("path_file_that_imports_several", ("the module gone is not installed",),
           breaks=write("old.pth", "import os, gone.hook\n")),
    Broken("sitecustomize_of_python_2", ("sitecustomize.py cannot be run",),
           breaks=write("sitecustomize.py", "print 'hello'\n")),
    Broken("folder_before_file", ("the folder pynvml of pynvml hides pynvml.py of nvidia-ml-py",),
           made=(("pynvml", "11.5.0", ()), ("nvidia-ml-py", "12.560.30", ())),
           files={"nvidia-ml-py": {"pynvml.py": ""}}),
    Broken("overwritten_by_an_empty_module", ("wrapper and wrapper-python overwrite",),
           made=(("wrapper", "1.4", ()), ("wrapper-python", "0.2.0", ())),
           files={"wrapper-python": {"wrapper/__init__.py": ""}}, breaks=overwrite),
    Broken("cuda13_torch_with_driver_535", ("driver_too_old_for_cuda",),
           made=(("torch", "2.11.0", ()),), machine=nvidia("12.2", "8.0", "535.104.05")),
    Broken("cu130_on_p100", ("torch_no_kernel_for_gpu",),
           made=(("torch", "2.11.0+cu130", ()),), machine=nvidia("13.0", "6.0", "580.65.06")),
    Broken("cu124_on_blackwell", ("torch_no_kernel_for_gpu",),
           made=(("torch", "2.6.0+cu124", ()),), machine=nvidia("12.8", "12.0", "570.26")),
    Broken("torch_without_its_nvidia_packages", ("nvidia-cublas-cu12",),
           made=(("torch", "2.9.0", NVIDIA),),
           offered=(("nvidia-cublas-cu12", "12.8.4.1", ()), ("nvidia-cudnn-cu12", "9.10.2.21", ())),
           machine=nvidia("12.8")),
    Broken("torch_for_the_cpu", ("torch_cpu_only_build",), made=(("torch", "2.9.0+cpu", ()),),
           offered=(("torch", "2.9.0", ()),), machine=nvidia("12.8")),
    Broken("torch_for_rocm", ("wrong_vendor_build",), made=(("torch", "2.9.0+rocm6.4", ()),),
           offered=(("torch", "2.9.0", ()),), machine=nvidia("12.8")),
    Broken("torchvision_of_another_torch", ("torch_extension_abi_mismatch",),
           made=(("torch", "2.9.0", ()), ("torchvision", "0.19.0", ("torch==2.4.0",))),
           offered=(("torchvision", "0.24.0", ("torch==2.9.0",)),)),
    Broken("jax_without_plugin", ("jax_cpu_fallback",),
           made=(("jax", "0.8.3", ("jax-cuda12-plugin==0.8.3; extra == 'cuda12'",)),),
           offered=(("jax-cuda12-plugin", "0.8.3", ()),), machine=nvidia("12.8")),
    Broken("jax_plugin_of_cuda_13", ("driver_too_old_for_cuda",),
           made=(("jax", "0.8.3", ()), ("jax-cuda13-plugin", "0.8.3", ())),
           machine=nvidia("12.2", "8.0", "535.104.05")),
    Broken("tensorflow_without_libraries", ("tf_gpu_libs_missing",),
           made=(("tensorflow", "2.20.0", ("nvidia-cudnn-cu12; extra == 'and-cuda'",)),),
           offered=(("nvidia-cudnn-cu12", "9.3.0", ()),), machine=nvidia("12.8")),
    Broken("cupy_of_cuda_13", ("cupy_wrong_cuda_wheel",), made=(("cupy-cuda13x", "14.1", ()),),
           offered=(("cupy-cuda12x", "14.1", ()),), machine=nvidia("12.8")),
    Broken("cupy_of_cuda_13_on_pascal", ("cupy_wrong_cuda_wheel",),
           made=(("cupy-cuda13x", "14.1", ()),), offered=(("cupy-cuda12x", "14.1", ()),),
           machine=nvidia("13.0", "6.1", "580.65.06")),
    Broken("cupy_twice", ("cupy_multiple_packages",),
           made=(("cupy-cuda11x", "13.6.0", ()), ("cupy-cuda12x", "13.6.0", ())),
           offered=(("cupy-cuda12x", "13.6.0", ()),)),
    Broken("onnxruntime_twice", ("onnxruntime-gpu and onnxruntime",),
           made=(("onnxruntime", "1.28", ()), ("onnxruntime-gpu", "1.28", ())),
           files={n: {"onnxruntime/__init__.py": f"# {n}"}
                  for n in ("onnxruntime", "onnxruntime-gpu")}),
    Broken("cublas_gone", ("cuda_runtime_lib_missing",),
           made=(("nvidia-cublas-cu12", "12.8.0", ()),),
           offered=(("nvidia-cublas-cu12", "12.8.0", ()),),
           files={"nvidia-cublas-cu12": BLAS}, breaks=delete("nvidia/cublas/lib/*")),
    Broken("two_openmp_runtimes", ("several_openmp_runtimes",),
           made=(("one", "1.0", ()), ("two", "1.0", ())),
           files={"one": {"one.libs/libiomp5-a1b2.so": "x"},
                  "two": {"two.libs/libomp-c3d4.so.5": "x"}}),
    Broken("interrupted_install", ("interrupted_install",), breaks=leave_remains),
    Broken("cached_wheel_cut", ("pip_hash_mismatch",), breaks=damage_cache),
    Broken("cached_wheel_flipped", ("pip_hash_mismatch",), breaks=flip_in_cache),
    Broken("cached_download_cut", ("pip_hash_mismatch",), breaks=cut_download),
    Broken("python_gone", ("environment_broken",), breaks=lose_python),
    Broken("python_upgraded", ("environment_broken",), breaks=upgrade_python),
    Broken("folder_gone", ("environment_broken",),
           breaks=lambda environment: shutil.rmtree(environment.prefix)),
    Broken("pip_gone", ("the environment has no pip",), breaks=lose_pip),
    Broken("packages_read_only", ("site_packages_permission_denied",), breaks=lock),
    Broken("shadowing_random", ("random.py",), breaks=beside("work/random.py"),
           variables={"PYTHONPATH": "{beside}/work"}),
    Broken("user_packages_hide_those_of_conda", ("pip install --user", "numpy 1.24.0"),
           made=(("numpy", "2.4.6", ()),), breaks=install_for_the_user, variables=CONDA),
    Broken("pip_over_conda", ("pip replaced conda's numpy 2.4.6",), made=(("numpy", "1.26.4", ()),),
           breaks=replace_by_pip, variables=CONDA),
    Broken("editable_project_gone", ("mine is installed from",), made=(("mine", "1.0", ()),),
           files={"mine": {"__editable___mine_1_0_finder.py": "", "__editable__.mine-1.0.pth":
                           "import __editable___mine_1_0_finder\n"}}, breaks=editable),
    Broken("easy_install_folder_gone", ("/home/old/project, which does not exist",),
           breaks=write("easy-install.pth", "/home/old/project\n")),
    Broken("hook_of_a_gone_module", ("the module my_hook, which is not installed",),
           breaks=write("my_hook.pth", "import my_hook; my_hook.install()\n")),
    Broken("environment_moved", ("environment_moved",), breaks=move,
           variables={"VIRTUAL_ENV": "{beside}/moved"}),
    Broken("package_of_root", ("site_packages_permission_denied",),
           made=(("numpy", "2.4.6", ()),), breaks=install_as_root),
    Broken("cudnn_too_old_for_jax", ("cudnn_missing_or_mismatch",),
           made=(("tensorflow", "2.20.0", ("nvidia-cudnn-cu12<10,>=9.3; extra == 'and-cuda'",)),
                 ("jax-cuda12-plugin", "0.8.3",
                  ("nvidia-cudnn-cu12<10,>=9.8; extra == 'with-cuda'",)),
                 ("nvidia-cudnn-cu12", "9.3.0.75", ())),
           offered=(("nvidia-cudnn-cu12", "9.10.2.21", ()),)),
    Broken("torchvision_with_cuda_beside_torch_without", ("torch_extension_abi_mismatch",),
           made=(("torch", "2.9.0+cpu", ()), ("torchvision", "0.24.0+cu128", ("torch==2.9.0",)))),
    Broken("numpy_half_upgraded", ("numpy 2.4.6 is incomplete",), made=(("numpy", "2.4.6", ()),),
           offered=(("numpy", "2.4.6", ()),), breaks=upgrade_half,
           files={"numpy": {"numpy/__init__.py": "", "numpy/version.py": "version = '2.4.6'\n"}}),
    Broken("compiled_for_another_python", ("was compiled for Python 3.6",),
           made=(("numpy", "1.19.5", ()),), breaks=for_another_python,
           files={"numpy": {"numpy/core/_u.cpython-36m-x86_64-linux-gnu.so": "x"}}),
    Broken("pip_installs_for_the_user", ("PIP_USER",), variables={"PIP_USER": "1"}),
    Broken("pip_installs_elsewhere", ("PIP_TARGET",),
           variables={"PIP_TARGET": "{beside}/target"}),
    Broken("module_emptied", ("mine 1.0 is incomplete",), made=(("mine", "1.0", ()),),
           files={"mine": {"mine/__init__.py": "x = 1"}}, breaks=empty_by_hand),
    Broken("data_gone", ("mine 1.0 is incomplete",), made=(("mine", "1.0", ()),),
           files={"mine": {"mine/__init__.py": "", "mine/table.json": "{}"}},
           breaks=lose_table),
    Broken("compiled_for_another_machine", ("mine 1.0 was compiled for s390x",),
           made=(("mine", "1.0", ()),), breaks=for_a_mainframe,
           files={"mine": {"mine/__init__.py": "", f"mine/a.{ENDING}": "x"}}),
    Broken("one_module_of_two_packages", ("ours and yours overwrite",), breaks=record_contents,
           made=(("ours", "1.0", ()), ("yours", "1.0", ())),
           files={name: {"same/__init__.py": f"# {name}"} for name in ("ours", "yours")}),
    # Its Python finds no library, so doctor starts only where it runs already, as in the tests.
    Broken("pythonhome_set", ("PYTHONHOME",), variables={"PYTHONHOME": "{beside}"}),
    Broken("hook_of_removed_setuptools", ("distutils-precedence.pth",), breaks=lose_setuptools),
    Broken("made_again_by_another_python", ("python3.9",), made=(("numpy", "1.26.4", ()),),
           breaks=made_again_by_another_python),
    Broken("another_python_is_found_first", ("PATH",), breaks=another_python_first,
           variables={"PATH": "{beside}/first:{prefix}/bin:/usr/bin:/bin"}),
    Broken("certificates_named_are_gone", ("REQUESTS_CA_BUNDLE",),
           variables={"REQUESTS_CA_BUNDLE": "{beside}/gone.pem"}),
    Broken("backport_before_the_standard_library", ("enum instead of the standard",),
           breaks=all_of(beside("lib/enum/__init__.py"), beside("lib/enum34-1.1.dist-info/WHEEL")),
           variables={"PYTHONPATH": "{beside}/lib"}),
    Broken("packages_of_another_python_first", ("numpy 1.21.5 instead of 2.4.6",),
           made=(("numpy", "2.4.6", ()),), variables={"PYTHONPATH": "{beside}/dist-packages"},
           breaks=all_of(beside("dist-packages/numpy/__init__.py"),
                         beside("dist-packages/numpy-1.21.5.egg-info"))),
    Broken("thread_count_is_a_list", ("OMP_NUM_THREADS",), made=(("numexpr", "2.10.2", ()),),
           variables={"OMP_NUM_THREADS": "4,2"}),
    Broken("backend_of_a_notebook", ("MPLBACKEND",), made=(("matplotlib", "3.11.2", ()),),
           variables={"MPLBACKEND": "module://matplotlib_inline.backend_inline"}),
    Broken("sitecustomize_needs_what_is_gone", ("the module company_proxy",),
           breaks=write("sitecustomize.py", "import os\nimport company_proxy\n")),
    Broken("in_the_sources_of_numpy", ("numpy/__init__.py hides",),
           made=(("numpy", "2.4.6", ()),),
           files={"numpy": {"numpy/__init__.py": "", "numpy/umath.so": "x"}},
           breaks=all_of(beside("pyproject.toml", ""), beside("numpy/__init__.py"))),
    Broken("pip_is_configured_for_the_user", ("pip.conf",), breaks=configure_pip),
    Broken("pyvenv_cfg_gone", ("has no pyvenv.cfg",), breaks=lose_configuration),
    Broken("code_of_an_older_protoc", ("mine 1.0 needs a protobuf other than 6.31.1",),
           made=(("mine", "1.0", ("protobuf>=3.8",)), ("protobuf", "6.31.1", ())),
           files={"mine": {"mine/a_pb2.py": "DESCRIPTOR = _descriptor.FileDescriptor(name='a')"}}),
    Broken("code_of_a_newer_protoc", ("mine 1.0 needs a protobuf other than 5.29.0",),
           made=(("mine", "1.0", ()), ("protobuf", "5.29.0", ())),
           files={"mine": {"mine/a_pb2.py": "# Protobuf Python Version: 6.31.1\n"}}),
    Broken("pkg_resources_gone", ("mine 1.0 needs pkg_resources",), made=(("mine", "1.0", ()),),
           files={"mine": {"mine/__init__.py": "__import__('pkg_resources').iter()\n"}},
           breaks=delete("setuptools", "setuptools-*", "pkg_resources", "_distutils_hack",
                         "distutils-precedence.pth")),
    Broken("scipy_too_new_for_gensim", ("gensim 4.3.2 needs scipy.linalg.triu",),
           made=(("gensim", "4.3.2", ("scipy>=1.7",)), ("scipy", "1.13.0", ())),
           offered=(("gensim", "4.3.3", ("scipy>=1.7",)),)),
    Broken("compiled_for_musl", ("mine 1.0 was compiled for",), breaks=for_a_mainframe,
           made=(("mine", "1.0", ()),),
           files={"mine": {"mine/__init__.py": "", f"mine/a.{MUSL}": "x"}}),
    Broken("cuda_home_gone", ("CUDA_HOME",), variables={"CUDA_HOME": "/usr/local/cuda-gone"}),
    Broken("path_file_in_utf16", ("project.pth is not valid UTF-8",), breaks=path_in_utf16),
    Broken("package_of_a_newer_python", ("mine 1.0 requires Python",), breaks=for_a_newer_python,
           made=(("mine", "1.0", ()),)),
    Broken("editable_build_without_ninja", ("overlay/bin/ninja",), breaks=lose_ninja,
           made=(("mine", "1.0", ()),)),
    Broken("python_built_without_lzma", ("built without _lzma",), breaks=build_without_lzma),
    Broken("script_of_a_gone_environment", ("bin/f2py starts",), breaks=keep_script),
    Broken("preloaded_library_gone", ("LD_PRELOAD names",),
           variables={"LD_PRELOAD": "{beside}/libtcmalloc.so"}),
    Broken("jax_platform_without_plugin", ("JAX_PLATFORMS=cuda needs",),
           made=(("jax", "0.10.2", ()),), variables={"JAX_PLATFORMS": "cuda"}),
    Broken("keras_without_backend", ("KERAS_BACKEND=tensorflow needs",),
           made=(("keras", "3.12.0", ()),)),
    Broken("implementation_of_protobuf_gone", ("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=cpp",),
           made=(("protobuf", "7.36.2", ()),),
           variables={"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "cpp"}),
    Broken("socks_proxy_without_socks", ("needs socksio",), made=(("httpx", "0.28.1", ()),),
           variables={"ALL_PROXY": "socks5://127.0.0.1:7890"}),
    Broken("cache_folder_cannot_be_made", ("HF_HOME points to",),
           variables={"HF_HOME": "/proc/huggingface"}),
    Broken("environment_copied", ("original/bin/python",), breaks=copied),
    Broken("script_of_another_python_is_found_first", ("first before",),
           breaks=script_of_another_python_first,
           variables={"PATH": "{beside}/first:{prefix}/bin:/usr/bin:/bin"}),
    Broken("path_file_without_its_variable", ("the variable LAB_GONE is not set",),
           breaks=write("lab.pth", "import os, sys; sys.path.append(os.environ['LAB_GONE'])\n")),
    Broken("sitecustomize_on_the_path_needs_what_is_gone", ("the module gone_tracer",),
           breaks=beside("hooks/sitecustomize.py", "from gone_tracer.auto import start\n"),
           variables={"PYTHONPATH": "{beside}/hooks"}),
    Broken("one_file_of_two_packages", ("nvidia-ml-py and nvidia-ml-py3 overwrite",),
           made=(("nvidia-ml-py", "12.575.51", ()), ("nvidia-ml-py3", "7.352.0", ())),
           files={"nvidia-ml-py": {"pynvml.py": "nvmlInit_v2 = 1\n"},
                  "nvidia-ml-py3": {"pynvml.py": "nvmlInit = 1\n"}},
           breaks=record_contents),
    Broken("compiled_for_windows", ("mine 1.0 was compiled for Windows",),
           made=(("mine", "1.0", ()),), breaks=for_windows,
           files={"mine": {"mine/__init__.py": "", "mine/_parser.cp311-win_amd64.pyd": "x"}}),
    Broken("module_of_zero_bytes", ("mine 1.0 is incomplete: a module of it holds only zero",),
           made=(("mine", "1.0", ()),),
           files={"mine": {"mine/__init__.py": "from . import a\n", "mine/a.py": "x = 1\n"}},
           breaks=write("mine/a.py", "\0" * 6)),
    Broken("removed_and_not_installed_again", ("and took away numpy==2.4.6",),
           made=(("numpy", "2.4.6", ()),), offered=(("numpy", "2.4.6", ()),),
           breaks=interrupt("numpy")),
    Broken("module_edited_wrongly", ("mine 1.0 is incomplete",), made=(("mine", "1.0", ()),),
           files={"mine": {"mine/__init__.py": "x = 1\n"}},
           breaks=write("mine/__init__.py", "def f(:\n")),
    Broken("threading_layer_gone", ("NUMBA_THREADING_LAYER=tbb needs",),
           made=(("numba", "0.68.1", ()),), variables={"NUMBA_THREADING_LAYER": "tbb"}),
]  # fmt: skip
BROKEN = [*REAL, *MADE]

"""The table of what variables must hold: what is right is not named, what is wrong is."""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gpuforge.changes.environment import PythonEnvironment
from gpuforge.diagnose import variable_rules
from gpuforge.diagnose.checks.environment_variables import redacted, variable_table
from gpuforge.diagnose.finding import Finding
from gpuforge.diagnose.library_search import LibrarySearch
from gpuforge.diagnose.run import run_checks
from gpuforge.probe import LiveProbe

from .environments import Environment, make_wheel

RIGHT = {
    "OMP_NUM_THREADS": "4,2",
    "PYTHONHASHSEED": "0",
    "PYTHONIOENCODING": "utf-8:replace",
    "PYTHONPATH": "/usr:/tmp",
    "JAX_PLATFORMS": "cpu",
    "KERAS_BACKEND": "torch",
    "MPLBACKEND": "QtAgg",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,max_split_size_mb:128",
    "PYTORCH_ALLOC_CONF": "roundup_power2_divisions:[256:1,>:8],expandable_segments:True",
    "HTTPS_PROXY": "http://me@proxy:3128",
    "https_proxy": "me:secret@proxy:3128",
    "SSL_CERT_DIR": "/not/there:/usr",
    "HF_HOME": "/tmp/not/there/yet",
    "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
    "HF_ENDPOINT": "https://hf-mirror.com",
    "MUJOCO_GL": "disabled",
    "NCCL_SOCKET_IFNAME": "^docker,lo",
    "PIP_EXTRA_INDEX_URL": "https://download.pytorch.org/whl/cpu https://me:x@host/simple",
    "PIP_FIND_LINKS": "https://download.pytorch.org/whl/torch_stable.html",
    "PLOTLY_RENDERER": "notebook+png",
    "PYTEST_ADDOPTS": "-q --color=no",
    "PYTHONMALLOC": "malloc_debug",
    "PYTHONWARNINGS": "ignore,error::mine.MyWarning",
    "QT_QPA_PLATFORM": "offscreen;xcb",
    "RAY_ADDRESS": "10.0.0.1:6379",
    "SSLKEYLOGFILE": "/tmp/keys.log",
    "TORCH_LOGS_OUT": os.devnull,
    "TORCH_CUDA_ARCH_LIST": "8.0;8.6+PTX 9.0a",
    "TZ": "CET-1CEST,M3.5.0,M10.5.0/3",
    "UV_INDEX": "mine=https://host/simple https://other/simple",
}
WRONG = {
    "PYTHONIOENCODING": "utf8mb4",
    "PYTHONPATH": "~/project",
    "HF_TOKEN": "hf_abc\u201d",
    "JAX_PLATFORMS": "cuda,cpu",
    "KERAS_BACKEND": "theano",
    "MPLBACKEND": "Qt4Agg",
    "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb=128",
    "HTTPS_PROXY": "socks://127.0.0.1:1080",
    "TORCH_HOME": "/proc/torch",
    "CXX": "/opt/gone/g++",
    "CUDA_DEVICE_ORDER": "PCI",
    "GOOGLE_APPLICATION_CREDENTIALS": "/gone/key.json",
    "HF_ENDPOINT": "hf-mirror.com",
    "JAVA_HOME": "/etc",
    "MUJOCO_GL": "osmessa",
    "NCCL_SOCKET_IFNAME": "ib77",
    "PIP_INDEX_URL": "pypi.org/simple",
    "PIP_NO_DEPS": "maybe",
    "PIP_TIMEOUT": "60s",
    "PLOTLY_RENDERER": "chromme",
    "PYTEST_ADDOPTS": "--cov=mine -q",
    "PYTHONBREAKPOINT": "ipdb.set_trace",
    "PYTHONMALLOC": "jemalloc",
    "PYTHONTZPATH": "/gone/share/zoneinfo",
    "SSLKEYLOGFILE": "/gone/keys.log",
    "TORCH_LOGS_OUT": "/gone/torch.log",
    "PYSPARK_SUBMIT_ARGS": "--master local[2]",
    "TORCH_CUDA_ARCH_LIST": "sm_80",
    "TZ": '"Europe/Rome"',
    "UV_LINK_MODE": "symbolic",
}
PACKAGES = ("keras", "jax", "torch", "httpx", "matplotlib", "pyqt6", "google-auth", "jpype1",
            "huggingface-hub", "mujoco", "numpy", "plotly", "pyspark", "pytest", "ray")  # fmt: skip


def found(environment: Environment) -> tuple[Finding, ...]:
    for name in PACKAGES:
        environment.add(make_wheel(environment.prefix.parent, name, "3.1"))
    return run_checks("environment_variables").having("error", "warning", "unknown")


@pytest.fixture(autouse=True)
def no_other_variables(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in {*RIGHT, *WRONG, "TMPDIR", *(n for n in os.environ if "_proxy" in n.lower())}:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KERAS_BACKEND", "jax")


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_value_is_not_named(
    name: str, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, RIGHT[name])
    assert found(environment) == ()


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_value_is_named(
    name: str, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, WRONG[name])
    (finding,) = found(environment)
    assert name in finding.message


def test_a_flag_of_another_version_is_named(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"jaxlib/lib.so": "xla_dump_to\0"}
    environment.add(make_wheel(environment.prefix.parent, "jaxlib", "3.1", files=files))
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/tmp --xla_gone=1")
    (finding,) = found(environment)
    assert "sets xla_gone, a flag that jaxlib rejects" in finding.message


def test_a_folder_that_is_mounted_noexec_is_named(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Mounted:
        f_flag = os.ST_NOEXEC

    monkeypatch.setattr(os, "statvfs", lambda path: Mounted)
    (finding,) = run_checks("python_environment").having("error")
    assert "noexec" in finding.message


def test_generated_code_that_is_optional_is_not_named(environment: Environment) -> None:
    old = {"mine/__init__.py": "", "mine/a_pb2.py": "DESCRIPTOR = _descriptor.FileDescriptor(1)"}
    folder: Path = environment.prefix.parent
    environment.add(make_wheel(folder, "protobuf", "7.36.2"))
    environment.add(make_wheel(folder, "mine", "1", ("protobuf; extra == 'sentencepiece'",), old))
    assert run_checks("package_versions").having("error", "warning") == ()


def test_a_backend_of_keras_that_its_own_file_names_is_not_missed(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KERAS_BACKEND")
    (finding,) = found(environment)
    assert "KERAS_BACKEND=tensorflow" in finding.message
    (tmp_path / ".keras").mkdir()
    (tmp_path / ".keras" / "keras.json").write_text('{"backend": "jax"}')
    assert found(environment) == ()


def test_one_script_of_another_python_is_no_moved_environment(environment: Environment) -> None:
    script = environment.prefix / "bin" / "old"
    script.write_text("#!/gone/bin/python3\n")
    script.chmod(0o755)
    (finding,) = run_checks("python_environment").having("error", "warning")
    assert finding.state == "warning"
    assert "/gone/bin/python3" in finding.message


def with_variable(
    environment: Environment,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: str,
    *packages: tuple[str, str],
) -> list[str]:
    for package, version in packages:
        environment.add(make_wheel(environment.prefix.parent, package, version))
    monkeypatch.setenv(name, value)
    faults = run_checks("environment_variables").having("error", "warning", "unknown")
    return [fault.message for fault in faults if name in fault.message]


def test_a_variable_counts_only_for_the_versions_that_read_it(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, hub = "HF_HUB_ENABLE_HF_TRANSFER", "huggingface-hub"
    assert not with_variable(environment, monkeypatch, name, "1", (hub, "1.1.0"))
    for info in environment.packages.glob("huggingface_hub-*"):
        info.rename(info.with_name("huggingface_hub-0.30.0.dist-info"))
    (message,) = with_variable(environment, monkeypatch, name, "1")
    assert "needs hf-transfer, which is not installed" in message
    assert not with_variable(environment, monkeypatch, name, "1", ("hf-transfer", "0.1.9"))


def test_a_library_that_a_value_needs_is_looked_for(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LibrarySearch, "cached", b"\0/usr/lib/libz.so.1\0")
    monkeypatch.setattr("gpuforge.diagnose.library_search.DEFAULT", ())
    asked = environment, monkeypatch, "MUJOCO_GL", "osmesa"
    (message,) = with_variable(*asked, ("mujoco", "3.3.0"))
    assert "MUJOCO_GL=osmesa needs libOSMesa.so" in message
    (environment.prefix / "lib" / "libOSMesa.so.8").touch()
    assert not with_variable(*asked)


def test_the_data_of_an_older_proj_are_named(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def write(folder: Path, layout: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(folder / "proj.db")) as database:
            database.execute("CREATE TABLE metadata (key, value)")
            row = ("DATABASE.LAYOUT.VERSION.MINOR", str(layout))
            database.execute("INSERT INTO metadata VALUES (?, ?)", row)
            database.commit()

    files = {"rasterio/__init__.py": "", "rasterio/proj_data/proj.db": ""}
    environment.add(make_wheel(tmp_path, "rasterio", "1.4.3", files=files))
    (environment.packages / "rasterio" / "proj_data" / "proj.db").unlink()
    write(environment.packages / "rasterio" / "proj_data", 4)
    for layout, several in ((2, 1), (4, 0), (6, 0)):
        (tmp_path / "proj" / "proj.db").unlink(missing_ok=True)
        write(tmp_path / "proj", layout)
        monkeypatch.delenv("PROJ_LIB", raising=False)
        named = with_variable(environment, monkeypatch, "PROJ_DATA", str(tmp_path / "proj"))
        assert len(named) == several


def test_a_list_of_certificates_holds_certificates(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("<html>not found</html>")
    (message,) = with_variable(environment, monkeypatch, "SSL_CERT_FILE", str(path))
    assert message.endswith("points to a file that is not a list of certificates")
    path.write_text("# mine\n-----BEGIN CERTIFICATE-----\n")
    assert not with_variable(environment, monkeypatch, "SSL_CERT_FILE", str(path))


def test_a_profile_is_in_a_file(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text("[default]\n[profile work]\n")
    asked = environment, monkeypatch, "AWS_PROFILE"
    assert not with_variable(*asked, "work", ("botocore", "1.40.0"))
    assert len(with_variable(*asked, "home")) == 1


def test_every_row_of_the_table_has_a_source_and_valid_patterns() -> None:
    for row in variable_table():
        assert row["name"] and row["source"], row
        kinds = ("needs", "library", "program", "extension", "warns")
        patterns = [like for kind in kinds for like in row.get(kind, {})]
        for like in (*patterns, *(row[k] for k in ("value", "if", "module", "listed") if k in row)):
            re.compile(like)


def test_a_value_that_cannot_be_looked_at_hides_no_other(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", "~nobody-of-this-name/huggingface")
    monkeypatch.setenv("PYSPARK_PYTHON", "   ")
    message = "all_proxy=socks://user:secret@127.0.0.1:7890"
    (fault,) = with_variable(environment, monkeypatch, *message.split("=", 1), ("httpx", "0.28"))
    assert fault == "packages cannot use all_proxy=socks://...@127.0.0.1:7890"


def test_a_threading_layer_is_named_beside_the_library_that_it_does_not_bear(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MKL_SERVICE_FORCE_INTEL", raising=False)
    monkeypatch.setenv("MKL_THREADING_LAYER", "INTEL")
    folder: Path = environment.prefix.parent
    environment.add(make_wheel(folder, "mkl-service", "2"))
    assert found(environment) == ()
    environment.add(make_wheel(folder, "torches", "2", files={"torch/lib/libgomp.so.1": ""}))
    (finding,) = found(environment)
    assert "MKL_THREADING_LAYER=INTEL makes mkl-service end the process" in finding.message
    for value in ("GNU", ""):
        monkeypatch.setenv("MKL_THREADING_LAYER", value)
        assert found(environment) == ()


def test_what_httpx_cannot_read_in_no_proxy_is_named(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment.add(make_wheel(environment.prefix.parent, "httpx", "0.28.1"))
    right = "localhost, ::1,10.0.0.0/8,host:8080,*.corp,http://[::1],.a.b:80,", "[::1],*", ""
    many = ", ".join(f"10.0.0.{number}" for number in range(100))
    wrong = f"{many},[::1]", "127.0.0.1,::1,[::1]", "fe80::/10,localhost", "a, [::1]:80", "a,x:y"
    for value in (*right, *wrong):
        monkeypatch.setenv("NO_PROXY", value)
        named = [one.message for one in run_checks("environment_variables").having("warning")]
        assert len(named) == (value in wrong), value
    assert named == [
        "NO_PROXY=a,x:y has an entry with which httpx creates no client (Invalid port): IPv6"
        " addresses must stand without brackets, and IPv6 ranges not at all"
    ]
    monkeypatch.setenv("no_proxy", "::1")  # which comes first
    assert run_checks("environment_variables").having("warning") == ()


def test_a_folder_for_temporary_files_that_is_too_long_for_sockets_is_named(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(PythonEnvironment, "version", "3.12.1")
    folder = Path("/tmp") / f"{tmp_path.name[:20]}-{os.getpid()}".ljust(70, "x")
    folder.mkdir()
    try:
        monkeypatch.setenv("TMPDIR", f"{folder}/")
        assert len(str(folder)) == 75
        assert [one for one in found(environment) if "multiprocessing" in one.message] == []
        longer = folder.rename(f"{folder}x")
        monkeypatch.setenv("TMPDIR", str(longer))
        (finding,) = (one for one in found(environment) if "multiprocessing" in one.message)
        assert "AF_UNIX path too long" in finding.message
        monkeypatch.setattr(PythonEnvironment, "version", "3.14.0")
        assert [one for one in found(environment) if "multiprocessing" in one.message] == []
    finally:
        for one in Path("/tmp").glob(f"{folder.name}*"):
            one.rmdir()


def test_the_folder_for_temporary_files_of_a_mac_is_not_too_long_for_ray(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", "/tmp/".ljust(49, "x"))
    named = {}
    for platform in ("linux", "darwin"):
        monkeypatch.setattr(LiveProbe, "platform", platform)
        named[platform] = [one for one in found(environment) if "Ray" in one.message]
    assert len(named["linux"]) == 1 and named["darwin"] == []


@pytest.mark.parametrize(("text", "shown"), [
    ("HF_TOKEN='hf 1' has 'quotes'", "HF_TOKEN=... has 'quotes'"),
    ("API_KEY= \"x\ny\" has quotes", "API_KEY=... has quotes"),
    ("MY_SECRET=a'b is set", "MY_SECRET=... is set"),
    ("redis://:a@b@host/0 and ftp://me:c@d@host", "redis://...@host/0 and ftp://...@host"),
])  # fmt: skip
def test_secrets_are_not_shown_whatever_they_hold(text: str, shown: str) -> None:
    assert redacted(text) == shown


def test_a_time_zone_that_the_system_lacks_is_named(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (row,) = (one for one in variable_table() if "under" in one)
    monkeypatch.setitem(row, "under", str(tmp_path))
    monkeypatch.setenv("TZ", ":Europe/Roma")
    (finding,) = found(environment)
    assert "TZ=:Europe/Roma names a time zone that" in finding.message
    (tmp_path / "Europe" / "Roma").mkdir(parents=True)
    assert found(environment) == ()
    for missing, value in {str(tmp_path / "none"): "Europe/Rome", str(tmp_path): "UTC"}.items():
        monkeypatch.setitem(row, "under", missing)
        monkeypatch.setenv("TZ", value)
        assert found(environment) == ()


def test_the_value_of_a_secret_variable_is_not_shown(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "'hf_abc'")
    (finding,) = found(environment)
    assert finding.message.startswith("HF_TOKEN=... still has its quotes")
    assert "hf_abc" not in f"{finding}"
    monkeypatch.setenv("HF_TOKEN", "hf_abc")
    assert found(environment) == ()


def test_a_compiler_that_is_gone_counts_where_something_is_compiled(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", "/opt/gone/bin/icc")
    check = "environment_variables"
    assert not run_checks(check).having("warning")
    inside = environment.prefix.parent / "src" / "mine"
    inside.mkdir(parents=True)
    (inside / "fast.pyx").touch()
    (finding,) = run_checks(check).having("warning")
    assert finding.message == "CC points to a program that does not exist"
    monkeypatch.setattr(variable_rules, "NEAR", 1)  # more are not looked at
    assert not run_checks(check).having("warning")


def test_constraints_that_exclude_what_is_installed_are_named(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    environment.add(make_wheel(tmp_path, "numpy", "2.2.6"))
    place = tmp_path / "constraints.txt"
    monkeypatch.setenv("PIP_CONSTRAINT", str(place))
    place.write_text(
        "# numpy<2\nnumpy>=2,<3  # fine\nnumpy<2; python_version < '3'\nscipy==1.0\nnumpy===2.2.6\n"
    )
    assert not run_checks("environment_variables").having("warning")
    place.write_text("numpy < 2\n")
    (finding,) = run_checks("environment_variables").having("warning")
    assert finding.message == "PIP_CONSTRAINT allows only numpy < 2, but 2.2.6 is installed"


@pytest.mark.parametrize("value", ["error", "default,error,ignore::DeprecationWarning"])
def test_warnings_as_errors_are_named(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("PYTHONWARNINGS", value)
    (finding,) = run_checks("environment_variables").having("warning")
    assert "makes an error of every warning" in finding.message


def test_a_setting_of_pip_is_told_with_its_file(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    (environment.prefix / "pip.conf").write_text("[global]\nuser = true\n")
    (finding,) = run_checks("environment_variables").having("warning")
    where = f"'user' in {environment.prefix}/pip.conf"
    assert finding.steps == (f"Delete {where}.",)
    assert finding.evidence == (f"{where}: true",)


def python_elsewhere(tmp_path: Path, *, settings: bool = True) -> Path:
    """Return the folder of programs of another environment; without `settings`, of a system."""
    programs = tmp_path / "other" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to("/bin/sh")
    if settings:
        (tmp_path / "other" / "pyvenv.cfg").write_text("")
    return programs


def test_the_python_of_another_environment_is_named(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = python_elsewhere(tmp_path, settings=False)
    monkeypatch.setenv("PATH", f"{other}:/usr/bin")
    assert not run_checks("environment_variables").having("warning")  # a system's Python
    (tmp_path / "other" / "pyvenv.cfg").write_text("")
    (finding,) = run_checks("environment_variables").having("warning")
    assert finding.message.endswith(
        "and not " + f"{environment.prefix}/bin: python comes from there"
    )


def test_a_python_behind_that_of_the_environment_is_not_named(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = python_elsewhere(tmp_path)
    (tmp_path / "link").symlink_to(environment.prefix)
    for own in (f"{environment.prefix}/bin/", f"{tmp_path}/link/bin"):
        monkeypatch.setenv("PATH", f"{own}:{other}:/usr/bin")
        assert not run_checks("environment_variables").having("warning")


def test_an_environment_that_is_gone_does_not_fail_the_check(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "gone"))
    monkeypatch.setenv("PATH", f"{python_elsewhere(tmp_path)}:/usr/bin")
    assert not run_checks("environment_variables").having("unknown")

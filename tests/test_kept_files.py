"""Whatever is wrong with the folders and files that gpuforge keeps, the user's program runs."""

from __future__ import annotations

import json
import os
import random
import re
import runpy
import shutil
import sqlite3
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuforge import stored
from gpuforge.environment.record import FILE as ENVIRONMENT_FILE
from gpuforge.environment.record import Record, read_record, write_record
from gpuforge.environment.refresh import newest_releases
from gpuforge.errors import InvalidSettings
from gpuforge.history import FILE as HISTORY_FILE
from gpuforge.history import History

SOURCE = str(Path(__file__).parents[1] / "src")
NOBODY = 65534
ROOT = os.name == "posix" and os.geteuid() == 0
OTHER_USER = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"] if ROOT else []
posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes of POSIX")
# A program of a user's, then the commands that read or keep something, all in one process.
PROGRAM = """
import os, sys, tempfile
if {gone!r}:
    os.chdir(tempfile.mkdtemp()); os.rmdir(os.getcwd())
if {full!r}:
    import resource
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
import numpy as np, gpuforge as gf

@gf.offload
def f(x):
    return (x * 2 + 1).sum()

for _ in range(30):
    found = f(np.arange(100_000.0))
from gpuforge.runtime.session import default_session
default_session().flush(force=True)
assert float(found) == 1e10 and gf.detect().host is not None
print("the program ran", flush=True)
from gpuforge.cli.main import main
for command in (["detect"], [], ["env", "list"], ["env", "plan", "--profile", "lightweight"],
                ["env", "show", "nlp"], ["env", "recommend"], ["config", "show"],
                ["config", "path"], ["config", "set", "learn", "true"], ["env", "new", "mine"]):
    print(f"status {{main(command)}}", flush=True)
"""


@dataclass
class Home:
    """The folders of one user, and what is unusual about the process."""

    folder: Path
    variables: dict[str, str | None]
    gone: bool = False
    full: bool = False

    @property
    def kept(self) -> Path:
        return self.folder / "cache" / "gpuforge"

    @property
    def settings(self) -> Path:
        return self.folder / "config" / "gpuforge" / "config.toml"


Condition = Callable[[Home], None]
CONDITIONS: dict[str, Condition] = {}


def condition(make: Condition) -> Condition:
    CONDITIONS[make.__name__] = make
    return make


def closed(path: Path) -> None:
    """Make a file or folder one that another user owns and nobody else may read."""
    path.chmod(0o700 if path.is_dir() and ROOT else 0o000)


@condition
def everything_as_it_should_be(home: Home) -> None:
    pass


@condition
def folders_of_another_user(home: Home) -> None:
    for name in ("cache", "config", "data"):
        closed(home.folder / name)


@condition
def read_only_folders(home: Home) -> None:
    for name in ("cache", "config", "data"):
        (home.folder / name).chmod(0o555)


@condition
def files_in_place_of_folders(home: Home) -> None:
    for name in ("cache", "config", "data"):
        shutil.rmtree(home.folder / name)
        (home.folder / name).write_text("not a folder")


@condition
def folders_that_are_gone(home: Home) -> None:
    home.variables = {f"XDG_{n}_HOME": None for n in ("CACHE", "CONFIG", "DATA")}
    home.variables["HOME"] = "/nonexistent/home"


@condition
def home_is_unset(home: Home) -> None:
    home.variables = {f"XDG_{n}_HOME": None for n in ("CACHE", "CONFIG", "DATA")}
    home.variables["HOME"] = None


@condition
def home_is_no_folder(home: Home) -> None:
    home.variables = {f"XDG_{n}_HOME": None for n in ("CACHE", "CONFIG", "DATA")}
    home.variables["HOME"] = "/dev/null"


@condition
def the_current_folder_is_gone(home: Home) -> None:
    home.gone = True


@condition
def the_disk_is_full(home: Home) -> None:
    home.full = True


@condition
def the_database_is_no_database(home: Home) -> None:
    (home.kept / HISTORY_FILE).write_bytes(random.Random(0).randbytes(9000))


@condition
def the_database_is_cut(home: Home) -> None:
    history = History(home.kept, "m")
    for number in range(300):
        history.keep_constant(f"name {number}", "x" * 100)
    path = home.kept / HISTORY_FILE
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@condition
def the_database_is_a_folder(home: Home) -> None:
    (home.kept / HISTORY_FILE).mkdir()


@condition
def the_database_is_closed(home: Home) -> None:
    (home.kept / HISTORY_FILE).touch()
    closed(home.kept / HISTORY_FILE)


@condition
def the_settings_are_damaged(home: Home) -> None:
    home.settings.write_bytes(b"learn = = 1\n\xff\xfe")


@condition
def the_settings_are_closed(home: Home) -> None:
    home.settings.write_text("learn = true")
    closed(home.settings)


@condition
def the_settings_are_a_folder(home: Home) -> None:
    home.settings.mkdir()


@condition
def the_profiles_are_closed(home: Home) -> None:
    (home.settings.parent / "profiles").mkdir()
    closed(home.settings.parent / "profiles")


@condition
def the_detected_machine_is_damaged(home: Home) -> None:
    detect = home.kept / "detect"
    detect.mkdir()
    (detect / "machine-00000000.json").write_text("{")
    (home.kept / "newest-releases.json").write_text('{"newest": []}')


@condition
def the_plan_is_damaged(home: Home) -> None:
    home.variables["GPUFORGE_DETERMINISTIC"] = "1"
    from gpuforge.runtime.calibration.fingerprint import machine_fingerprint

    (home.kept / f"plan-{machine_fingerprint()}.json").write_text("{half")


@pytest.fixture(scope="module")
def user() -> None:
    """Skip where nobody whom modes bind can import what this Python can."""
    if ROOT and shutil.which("setpriv") is None:
        pytest.skip("modes do not bind root, who needs setpriv to be another user")
    code = f"import sys; sys.path.insert(0, {SOURCE!r}); import numpy, gpuforge"
    try:
        done = subprocess.run(
            [*OTHER_USER, sys.executable, "-c", code], capture_output=True, cwd="/"
        )
    except PermissionError:
        pytest.skip("the user whom modes bind may not run this Python")
    if done.returncode:
        pytest.skip("the user whom modes bind may not read this Python's packages")


@pytest.fixture
def home(user: None, tmp_path: Path) -> Iterator[Home]:
    variables: dict[str, str | None] = {"HOME": str(tmp_path)}
    for name in ("cache", "config", "data"):
        (tmp_path / name / "gpuforge").mkdir(parents=True)
        variables[f"XDG_{name.upper()}_HOME"] = str(tmp_path / name)
    yield Home(tmp_path, variables)
    for path in (tmp_path, *tmp_path.rglob("*")):  # or nobody could remove it
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | stat.S_IRWXU)


def run(home: Home, code: str) -> subprocess.CompletedProcess[str]:
    """Run `code` as somebody whom modes bind, with the variables of `home`."""
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("XDG_", "GPUFORGE_"))}
    found = {**kept, **home.variables, "PYTHONPATH": SOURCE, "PYTHONDONTWRITEBYTECODE": "1"}
    variables = {name: value for name, value in found.items() if value is not None}
    variables["TMPDIR"] = "/tmp"
    return subprocess.run(
        [*OTHER_USER, sys.executable, "-c", code],
        env=variables, capture_output=True, text=True, timeout=300, cwd="/",
    )  # fmt: skip


@contextmanager
def given_to_nobody(home: Home) -> Iterator[None]:
    """Let the process own its folders, but not what `closed` took from everybody."""
    if ROOT:
        top = home.folder
        while top != top.parent:
            top.chmod(top.stat().st_mode | 0o055)
            top = top.parent
        for path in home.folder.rglob("*"):
            if path.stat().st_mode & 0o055 or (path.is_file() and path.stat().st_mode & 0o044):
                os.chown(path, NOBODY, NOBODY)
    yield


@posix
@pytest.mark.differ
@pytest.mark.parametrize("name", CONDITIONS)
def test_the_users_program_runs(name: str, home: Home) -> None:
    CONDITIONS[name](home)
    with given_to_nobody(home):
        done = run(home, PROGRAM.format(gone=home.gone, full=home.full))
    assert "the program ran" in done.stdout, done.stderr[-2000:]
    assert "Traceback" not in done.stderr, done.stderr[-2000:]
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("status ") == 10
    assert not list(home.folder.rglob("*.part"))
    assert not Path("/~").exists()


NONSENSE = ["[]", "{}", "null", '"text"', "[[1]]", "[1e999]", '{"ratios": [1]}', "-1", "[" * 5000]


@posix
@pytest.mark.parametrize("value", NONSENSE)
def test_rows_of_the_wrong_shape_are_passed_over(value: str, home: Home) -> None:
    code = """
import numpy as np, gpuforge as gf

@gf.offload
def f(x):
    return (x * 2 + 1).sum()

for _ in range(30):
    found = f(np.arange(100_000.0))
from gpuforge.runtime.session import default_session
session = default_session()
session.priors.table
session.history.keep_constant("calibration", {})
session.flush(force=True)
assert float(found) == 1e10
print("the program ran")
"""
    with given_to_nobody(home):
        first = run(home, code)
        assert "the program ran" in first.stdout, first.stderr[-2000:]
        with closing(sqlite3.connect(home.kept / HISTORY_FILE)) as connection, connection:
            connection.execute("UPDATE constant SET value = ?", (value,))
            connection.execute("UPDATE timing SET seconds = ?", (value,))
            connection.execute("UPDATE timing SET size = -5, backend = x'00ff'")
        again = run(home, code)
    assert "the program ran" in again.stdout, again.stderr[-2000:]


def test_a_locked_database_holds_a_program_up_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = []
    monkeypatch.setattr("gpuforge.history.BUSY_SECONDS", 0.05)
    writer, history = History(tmp_path, "m"), History(tmp_path, "m")
    writer.keep_constant("c", 1)
    opened = History._open
    monkeypatch.setattr(History, "_open", lambda self: waited.append(1) or opened(self))
    with closing(sqlite3.connect(tmp_path / HISTORY_FILE)) as connection:
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        for _ in range(5):
            history.keep_constant("c", 2)
            assert history.constant("c") is None
        connection.rollback()
    assert len(waited) == 1
    assert "locked" in history.problem


def test_a_broken_database_takes_its_log_along(tmp_path: Path) -> None:
    """What the log of the broken file holds is not applied to the new one."""
    path = tmp_path / HISTORY_FILE
    History(tmp_path, "m").keep_constant("c", 1)
    path.write_bytes(b"not a database at all" * 400)
    Path(f"{path}-wal").write_bytes(b"left behind")
    history = History(tmp_path, "m")
    assert history.constant("c") is None
    history.keep_constant("c", 2)
    assert history.constant("c") == 2
    assert "renamed" in history.problem


def test_a_database_that_another_process_began_anew_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / HISTORY_FILE
    history = History(tmp_path, "m")
    history.keep_constant("c", 1)
    before = path.stat().st_ino
    path.rename(tmp_path / "before")  # were it deleted, its number might be given again
    History(tmp_path, "m").keep_constant("c", 2)
    assert path.stat().st_ino != before
    history._recover(sqlite3.DatabaseError("database disk image is malformed"), before)
    assert history.constant("c") == 2


class TestWriting:
    def test_the_old_content_stays_where_the_disk_is_full(self, tmp_path: Path) -> None:
        code = f"""
            import resource
            from pathlib import Path
            from gpuforge import stored
            path = Path({str(tmp_path / "kept")!r})
            stored.write(path, "old")
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
            try:
                stored.write(path, "new" * 1000)
            except OSError:
                print("refused")
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True
        )
        assert done.stdout == "refused\n", done.stderr
        assert (tmp_path / "kept").read_text() == "old"
        assert os.listdir(tmp_path) == ["kept"]

    def test_it_is_on_the_disk_before_it_has_its_name(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        done: list[str] = []
        sync, replace = os.fsync, os.replace
        monkeypatch.setattr(os, "fsync", lambda handle: done.append("sync") or sync(handle))
        monkeypatch.setattr(os, "replace", lambda a, b: done.append("name") or replace(a, b))
        stored.write(tmp_path / "below" / "kept", "text", parents=True)
        assert done == ["sync", "name"]

    @posix
    def test_mode_and_link_stay(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("old")
        (tmp_path / "file").chmod(0o640)
        (tmp_path / "link").symlink_to("file")
        stored.write(tmp_path / "link", "new")
        assert (tmp_path / "file").read_text() == "new"
        assert (tmp_path / "link").is_symlink()
        assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640

    @posix
    def test_a_device_or_a_pipe_is_written_to_and_not_replaced(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        end = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        try:
            stored.write(tmp_path / "pipe", "text")
            assert os.read(end, 9) == b"text"
        finally:
            os.close(end)
        assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)

    def test_what_killed_processes_left_is_removed_in_time(self, tmp_path: Path) -> None:
        old, new = tmp_path / ".kept.1.aa.part", tmp_path / ".kept.2.bb.part"
        for path in (old, new):
            path.write_text("half")
        os.utime(old, (0, 0))
        stored.write(tmp_path / "kept", "text")
        assert not old.exists()
        assert new.exists()

    def test_every_module_writes_files_through_it(self) -> None:
        """Others are an installer's, of a snapshot, of /proc, of a trial, or chosen by the user."""
        elsewhere = {
            "stored.py", "probe/recording.py", "environment/place.py", "environment/installers.py",
            "runtime/workers/serving.py",
            "changes/action.py", "changes/keep.py", "cli/commands/report.py",
            "cli/commands/report_issue.py", "cli/startup_validation.py",
        }  # fmt: skip
        source = Path(SOURCE) / "gpuforge"
        writing = re.compile(r"\.write_text\(|\.write_bytes\(|os\.replace\(|NamedTemporaryFile")
        found = {
            str(path.relative_to(source))
            for path in source.rglob("*.py")
            if writing.search(path.read_text(encoding="utf-8"))
        }
        assert found - elsewhere == set()

    def test_no_module_has_a_form_of_its_own_for_dataclasses(self) -> None:
        """What is printed may be; what is stored goes through `stored.dumps`."""
        source = Path(SOURCE) / "gpuforge"
        own = re.compile(r"(?s)(?:write|write_text|write_bytes)\([^)]*json\.dumps\((?:asdict|vars)")
        texts = {path: path.read_text(encoding="utf-8") for path in source.rglob("*.py")}
        found = [path.name for path, text in texts.items()
                 if own.search(text) or "json.dumps(asdict(" in text]  # fmt: skip
        assert found == []


class TestValues:
    RECORD = Record("nlp", "jax", "cpu", "3.12", ".venv", "uv", {"jax": "0.12"})

    @given(st.binary(max_size=60), st.integers(0, 400), st.integers(0, 60))
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_a_damaged_record_is_refused_or_whole(
        self, tmp_path: Path, noise: bytes, start: int, length: int
    ) -> None:
        write_record(tmp_path, self.RECORD)
        path = tmp_path / ENVIRONMENT_FILE
        content = path.read_bytes()
        path.write_bytes(content[:start] + noise + content[start + length :])
        try:
            found = read_record(tmp_path)
        except InvalidSettings as error:
            assert str(path) in str(error)
        else:
            assert isinstance(found, Record)
            assert all(isinstance(pin, str) for pin in found.pins.values())

    def test_a_record_of_an_earlier_release_is_read(self, tmp_path: Path) -> None:
        table = {"schema_version": 1, **vars(self.RECORD)}
        (tmp_path / ENVIRONMENT_FILE).write_text(json.dumps(table))
        assert read_record(tmp_path) == self.RECORD

    @pytest.mark.parametrize("pins", ["[]", "{}", '{"a": 1}', "null"])
    def test_the_type_of_each_field_is_checked(self, tmp_path: Path, pins: str) -> None:
        table = json.dumps(vars(self.RECORD)).replace('{"jax": "0.12"}', pins)
        (tmp_path / ENVIRONMENT_FILE).write_text(table)
        if pins == "{}":
            assert read_record(tmp_path) is not None
        else:
            with pytest.raises(InvalidSettings, match="pins"):
                read_record(tmp_path)

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"newest": [], "asked": ""}', "\xff"])
    def test_damaged_answers_of_an_index_count_for_nothing(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "newest-releases.json").write_text(text)
        assert newest_releases(tmp_path) == {}


@pytest.mark.slow
@posix
def test_processes_that_share_a_cache_survive_kills(tmp_path: Path) -> None:
    script = runpy.run_path(str(Path(SOURCE).parent / "benchmarks" / "kept" / "processes.py"))
    result = script["measure"](40, folder=tmp_path)
    assert result["failures"] == []
    assert result["killed"] > 5

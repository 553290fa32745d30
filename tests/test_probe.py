"""The two probes keep one contract; a snapshot never reads outside its folder."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from gpuforge.errors import WorkloadError
from gpuforge.facts import Absent, Failed
from gpuforge.probe import OUTPUT_LIMIT_BYTES, LiveProbe, Output, SnapshotProbe, recorded_name

PYTHON = sys.executable


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    folder = tmp_path / "machine"
    sys_folder = folder / "sysroot" / "sys" / "class" / "drm"
    real = folder / "sysroot" / "sys" / "devices" / "pci0" / "drm" / "card0"
    sys_folder.mkdir(parents=True)
    real.mkdir(parents=True)
    (sys_folder / "card0.link").write_text("../../devices/pci0/drm/card0\n")
    (real / "vendor").write_text("0x1002\n")
    (real / "device.link").write_text("../..")
    (folder / "nvidia-smi.txt").write_text("bare")
    (folder / "nvidia-smi-q.xml").write_text("<xml/>")
    (folder / "nvidia-smi-q.txt").write_text("text")
    (folder / "x.wmi").write_bytes("Name=Ä".encode("utf-16-le"))
    return folder


def test_snapshot_follows_recorded_links(snapshot: Path) -> None:
    probe = SnapshotProbe(snapshot)
    assert probe.read_text("/sys/class/drm/card0/vendor") == "0x1002\n"
    assert probe.list_dir("/sys/class/drm") == ("card0",)
    assert probe.list_dir("/sys/class/drm/card0") == ("device", "vendor")
    assert probe.read_link("/sys/class/drm/card0/device") == "../.."
    assert probe.list_dir("/sys/class/drm/card0/device") == ("drm",)


@pytest.mark.parametrize("path", ["/../../../etc/passwd", "/etc/passwd", "/sys/../../etc/passwd"])
def test_snapshot_never_leaves_its_folder(snapshot: Path, path: str) -> None:
    assert isinstance(SnapshotProbe(snapshot).read_text(path), Absent)


def test_snapshot_refuses_a_real_link_that_leads_out(snapshot: Path) -> None:
    (snapshot / "sysroot" / "out").symlink_to("/etc")
    (snapshot / "lspci.txt").symlink_to("/etc/hostname")
    probe = SnapshotProbe(snapshot)
    assert isinstance(probe.read_text("/out/hostname"), Absent)
    assert not probe.outputs("lspci")


def test_snapshot_with_a_circle_of_links_ends(snapshot: Path) -> None:
    (snapshot / "sysroot" / "a.link").write_text("b")
    (snapshot / "sysroot" / "b.link").write_text("a")
    assert isinstance(SnapshotProbe(snapshot).read_text("/a/x"), Absent)


def test_snapshot_finds_outputs_by_command(snapshot: Path) -> None:
    probe = SnapshotProbe(snapshot)
    assert probe.run(["nvidia-smi"]) == Output(0, "bare", "", source="nvidia-smi.txt")
    assert probe.run(["nvidia-smi", "-q", "-x"]).stdout == "<xml/>"  # type: ignore[union-attr]
    assert probe.run(["nvidia-smi", "-q"]).stdout == "text"  # type: ignore[union-attr]
    assert isinstance(probe.run(["nvidia-smi", "-L"]), Absent)
    sources = [out.source for out in probe.outputs("nvidia-smi") if isinstance(out, Output)]
    assert sources == ["nvidia-smi-q.txt", "nvidia-smi-q.xml", "nvidia-smi.txt"]
    assert isinstance(probe.find_program("nvidia-smi"), str)
    assert isinstance(probe.find_program("nvid"), Absent)


def test_snapshot_decodes_utf16_without_a_mark(snapshot: Path) -> None:
    (output,) = SnapshotProbe(snapshot).outputs("x")
    assert isinstance(output, Output) and output.stdout == "Name=Ä"


def test_snapshot_that_is_no_folder_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError) as caught:
        SnapshotProbe(tmp_path / "nowhere")
    assert caught.value.hint


def test_recorded_name_leaves_formats_to_the_ending() -> None:
    assert recorded_name(["/usr/bin/nvidia-smi", "-q", "-x"]) == "nvidia-smi-q"
    assert recorded_name(["lspci", "-nnk"]) == "lspci-nnk"
    assert (
        recorded_name(["nvidia-smi", "--query-gpu=a,b", "--format=csv"]) == "nvidia-smi-query-gpu"
    )


def test_live_run_returns_streams_and_status() -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    output = LiveProbe().run([PYTHON, "-c", code], timeout=30)
    assert isinstance(output, Output)
    assert (output.status, output.stdout.strip(), output.stderr.strip()) == (3, "out", "err")


def test_live_run_ends_a_program_that_prints_without_end() -> None:
    code = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    output = LiveProbe().run([PYTHON, "-c", code], timeout=30)
    assert isinstance(output, Output) and output.cut
    assert len(output.stdout) == OUTPUT_LIMIT_BYTES


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="process groups are POSIX")
def test_live_run_ends_the_whole_group_at_the_time_limit(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    code = f"sleep 60 & echo $! > {pid_file}; sleep 60"
    found = LiveProbe().run(["/bin/sh", "-c", code], timeout=2)
    assert isinstance(found, Failed) and found.kind == "timeout"
    assert ended(int(pid_file.read_text()))


def ended(pid: int) -> bool:
    """Return whether a process that was sent a signal has gone, or goes within ten seconds."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state.rpartition(")")[2].split()[0] == "Z":
            return True
    return False


def test_live_run_of_a_file_that_is_no_program(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("\x7fELF nonsense")
    tool.chmod(0o755)
    found = LiveProbe().run([str(tool)])
    assert isinstance(found, Failed) and found.kind == "not_runnable"
    assert isinstance(LiveProbe().run(["no-such-program"]), Absent)


def test_live_reads_do_not_block_on_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert isinstance(LiveProbe().read_bytes(str(tmp_path / "pipe")), Failed)
    assert isinstance(LiveProbe().read_bytes(str(tmp_path)), Failed)
    assert isinstance(LiveProbe().read_text("nul\0byte"), Failed)

"""``gpuforge detect`` and the bare ``gpuforge``: what they print, where, and their exit status."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

import gpuforge
from gpuforge.cli.main import main
from gpuforge.detect import detect_machine
from gpuforge.facts import Host, Machine, known
from gpuforge.probe import LiveProbe, SnapshotProbe
from gpuforge.probe.recording import RecordingProbe, without_names

TOP = ["schema_version", "status", "error", "failures", "devices", "best_device", "host"]
TOP += ["elapsed_seconds", "from_cache"]
DEVICE = ["index", "vendor", "name", "memory_total_bytes", "memory_free_bytes", "driver_version"]
DEVICE += ["runtimes", "runtime_version", "compute_capability", "architecture", "pci_address"]
DEVICE += ["pci_id", "uuid", "integrated", "score", "unknown"]


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    status = main(["detect", "--json", *arguments])
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    found: dict[str, Any] = json.loads(out)
    return status, found


def test_json_has_exactly_the_keys_of_the_contract(
    capsys: pytest.CaptureFixture[str], corpus: Path
) -> None:
    for folder in sorted(path for path in (corpus / "devices").iterdir() if path.is_dir()):
        status, document = run_json(capsys, "--snapshot", str(folder))
        assert list(document) == TOP
        assert status == (1 if document["status"] == "driver_error" else 0)
        assert (document["error"] is not None) == (document["status"] == "driver_error")
        for device in document["devices"]:
            assert list(device) == DEVICE
            nulls = {name for name in DEVICE if device[name] is None}
            assert nulls == set(device["unknown"]), folder.name
            assert all(device["unknown"].values())


def test_json_of_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    status, document = run_json(capsys)
    assert status in (0, 1) and document["schema_version"] == 1
    assert document["host"]["cores"] >= 1
    assert run_json(capsys)[1]["from_cache"] or document["failures"]
    assert not run_json(capsys, "--refresh")[1]["from_cache"]


def test_text_of_a_machine_with_a_gpu(capsys: pytest.CaptureFixture[str], corpus: Path) -> None:
    folder = corpus / "devices" / "nv-h100-mig-590"
    assert main(["detect", "--snapshot", str(folder), "--why"]) == 0
    out = capsys.readouterr().out
    for word in ("NVIDIA H100 80GB HBM3", "79.6 GiB", "590.48.01", "cuda 13.1", "9.0 hopper"):
        assert word in out
    assert "from nvidia-smi-q.txt" in out and "bandwidth" in out


def test_text_of_a_driver_error_names_the_next_step(
    capsys: pytest.CaptureFixture[str], corpus: Path
) -> None:
    folder = corpus / "devices" / "nv-err-version-mismatch-470"
    assert main(["detect", "--snapshot", str(folder)]) == 1
    streams = capsys.readouterr()
    assert "version_mismatch" in streams.out and "gpuforge doctor" in streams.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["detect", "--snapshot", "/nowhere"],
        ["detect", "--jsno"],
        ["detect", "extra"],
        ["detect", "--snapshot", "/tmp", "--record", "/tmp/x"],
        ["--profil"],
        ["--profile"],
        ["--json"],
    ],
)
def test_wrong_usage_is_status_two_with_a_hint(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    streams = capsys.readouterr()
    assert not streams.out and "error:" in streams.err and "hint:" in streams.err


def test_cpu_only_leaves_the_gpus_out(capsys: pytest.CaptureFixture[str]) -> None:
    _, document = run_json(capsys, "--cpu-only")
    assert document["devices"] == [] and document["host"]["cores"] >= 1
    assert main(["detect", "--cpu-only"]) == 0
    assert "--cpu-only" in capsys.readouterr().out


def test_record_writes_a_snapshot_that_replays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "machine"
    assert main(["detect", "--record", str(folder)]) in (0, 1)
    streams = capsys.readouterr()
    assert str(folder) in streams.err
    live, replayed = detect_machine(LiveProbe()), detect_machine(SnapshotProbe(folder))
    assert [known(d.name) for d in replayed.devices] == [known(d.name) for d in live.devices]
    assert replayed.host.cpu_model == live.host.cpu_model
    assert replayed.host.cores == live.host.cores
    assert main(["detect", "--record", str(folder)]) == 2


def test_recording_of_a_recording_is_the_same_machine(tmp_path: Path, corpus: Path) -> None:
    for name in ("nv-h200-590", "amd-mi308x-cpx-kfd", "hybrid-tigerlake-gtx1650-lspci"):
        memory = RecordingProbe(SnapshotProbe(corpus / "devices" / name))
        first = detect_machine(memory)
        memory.save(tmp_path / name)
        second = detect_machine(SnapshotProbe(tmp_path / name))
        assert [(d.pci_address, d.name, d.memory_total_bytes) for d in first.devices] == [
            (d.pci_address, d.name, d.memory_total_bytes) for d in second.devices
        ]


def test_recording_holds_no_names_and_serial_numbers() -> None:
    text = (
        "<serial>0324217145110</serial> /home/alice/x C:\\Users\\bob\\y\n"
        "    Serial Number                                      : 1324321002473\n"
        '"Serial Number": "692024000810"\nunique_id 14073402507705256556\nSystemName=DESKTOP-1\n'
        "GPU-d3da8716-eaab-75db-efc1-60e88e1cd55e\n| Processes: | alice.py |\n"
    )
    kept = without_names(text)
    secrets = (
        "0324217145110",
        "alice",
        "bob",
        "1324321002473",
        "692024000810",
        "1407340",
        "DESKTOP",
    )
    for secret in (*secrets, "d3da8716"):
        assert secret not in kept


def test_bare_command_shows_machine_health_and_next_step(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([]) in (0, 1)
    out = capsys.readouterr().out
    assert "CPU:" in out and "health:" in out and "next:" in out


def test_verbose_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["detect", "--json", "--verbose", "--refresh"]) in (0, 1)
    streams = capsys.readouterr()
    json.loads(streams.out)
    assert "nvidia took" in streams.err


def test_package_is_the_function() -> None:
    import gpuforge.detect as package

    assert gpuforge.detect is package
    machine = gpuforge.detect()
    assert isinstance(machine, Machine)
    again = asyncio.run(gpuforge.detect_async())
    assert again.status == machine.status
    best = gpuforge.best_device()
    assert (best.index if best else None) == machine.best_device


def test_names_load_in_any_order() -> None:
    for statement in (
        "import gpuforge.detect; import gpuforge; gpuforge.detect()",
        "import gpuforge; gpuforge.detect(); from gpuforge.detect import detect_machine",
        "from gpuforge.detect import detect_machine; import gpuforge; gpuforge.detect()",
    ):
        subprocess.run([sys.executable, "-c", statement], check=True)


def test_detection_loads_no_array_library_and_opens_no_device() -> None:
    code = (
        "import sys, gpuforge, os; gpuforge.detect(refresh=True);"
        "assert not {'numpy', 'torch', 'jax', 'pyopencl', 'pynvml'} & set(sys.modules);"
        "fds = [os.readlink(f'/proc/self/fd/{f}') for f in os.listdir('/proc/self/fd')"
        " if os.path.islink(f'/proc/self/fd/{f}')] if os.path.isdir('/proc/self/fd') else [];"
        "assert not [f for f in fds if f.startswith(('/dev/dri', '/dev/kfd'))]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_host_of_files(tmp_path: Path) -> None:
    files = {
        "proc/cpuinfo": "processor : 0\nmodel name : Test CPU\nflags : lm avx2 hypervisor\n"
        "processor : 1\n",
        "proc/meminfo": "MemTotal:       16384000 kB\n",
        "proc/self/status": "Cpus_allowed_list:\t0-7\n",
        "proc/self/cgroup": "0::/a/b\n",
        "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
        "sys/fs/cgroup/a/cpu.max": "250000 100000\n",
        "sys/fs/cgroup/a/memory.max": "1073741824\n",
        "sys/class/dmi/id/sys_vendor": "Amazon EC2\n",
        "sys/class/dmi/id/product_name": "p4d.24xlarge\n",
        "proc/version": "Linux version 5.15.0-microsoft-standard-WSL2\n",
    }
    for name, text in files.items():
        path = tmp_path / "sysroot" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    host: Host = detect_machine(SnapshotProbe(tmp_path)).host
    assert host.cpu_model == "Test CPU" and host.machine == "x86_64"
    assert host.cores == 3, "a quota of 2.5 CPUs"
    assert host.memory_total_bytes == 2**30
    assert host.isa == ("avx2",)
    assert host.platform == "wsl2"
    assert host.cloud_instance == "p4d.24xlarge" and host.virtual_machine == "nitro"


def test_detector_of_another_package_is_asked_when_the_setting_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "npu_detector.py").write_text(
        "from gpuforge.detect.seen import Seen\n"
        "def detect(probe):\n"
        "    seen = Seen()\n"
        "    seen.add('other', 'npu-tool', [{'name': 'Acme X1', 'memory_total_bytes': 2**30}])\n"
        "    return seen\n"
    )
    info = tmp_path / "acme_detector-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-detector\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[gpuforge.detectors]\nacme = npu_detector\nbroken = no_such_module\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def devices(**variables: str) -> list[tuple[str, str]]:
        command = [sys.executable, "-m", "gpuforge", "detect", "--json", "--verbose", "--refresh"]
        done = subprocess.run(
            command, env={**os.environ, **variables}, capture_output=True, text=True, check=True
        )
        said = "cannot load detector broken" in done.stderr
        assert said is bool(variables), done.stderr
        return [(d["vendor"], d["name"]) for d in json.loads(done.stdout)["devices"]]

    own = devices()
    assert ("other", "Acme X1") not in own
    assert devices(GPUFORGE_DETECT_PLUGINS="1") == [*own, ("other", "Acme X1")]


REPORT = """\
```
Unable to determine the device handle for GPU 0000:87:00.0: Unknown Error
| NVIDIA-SMI 550.54.14     Driver Version: 550.54.14     CUDA Version: 12.4     |
|   0  NVIDIA L40S     On  | 00000000:17:00.0 Off |                    0 |
| N/A   30C    P8    35W / 350W |   1MiB / 46068MiB |      0%      Default |
```
OS: Ubuntu 22.04.3 LTS (x86_64)
"""


def test_machine_of_a_pasted_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.md"
    path.write_text(REPORT)
    assert main(["detect", "--from", str(path), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    (device,) = document["devices"]
    assert device["name"] == "NVIDIA L40S" and device["driver_version"] == "550.54.14"
    assert document["error"]["kind"] == "gpu_lost" and document["host"]["platform"] == "linux"
    assert document["host"]["cores"] is None, "nothing of this machine"
    assert main(["detect", "--from", str(path)]) == 1
    streams = capsys.readouterr()
    assert "NVIDIA L40S" in streams.out and f"gpuforge explain {path}" in streams.err


def test_machine_of_a_text_on_stdin() -> None:
    command = [sys.executable, "-m", "gpuforge", "detect", "--from", "-", "--json"]
    done = subprocess.run(command, input=REPORT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and json.loads(done.stdout)["devices"][0]["index"] == 0


def test_text_without_a_machine_is_said_to_show_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "note.txt"
    path.write_text("It does not work on my computer.\n")
    assert main(["detect", "--from", str(path)]) == 3
    out, err = capsys.readouterr()
    assert (out, err) == ("", "no machine was recognised in the text\n")


def test_text_that_names_no_gpu_is_not_said_to_come_from_a_machine_without_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "note.txt"
    path.write_text("OS: Ubuntu 22.04\nThe build fails.\n")
    assert main(["detect", "--from", str(path)]) == 0
    out, _ = capsys.readouterr()
    assert out == "the text names no GPU\nCPU: unknown model, linux\n"


def test_what_is_not_text_is_not_searched_for_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.md.gz"
    for content in (Random(5).randbytes(50_000), gzip.compress(Random(6).randbytes(9_000))):
        path.write_bytes(content)
        assert main(["detect", "--from", str(path)]) == 2
        streams = capsys.readouterr()
        assert streams.out == ""
        assert "this is not text" in streams.err and "unpack" in streams.err
    path.write_bytes(b"\x1b[32mNVIDIA L40S\x1b[0m\r\n\0\0\n" + REPORT.encode())
    assert main(["detect", "--from", str(path)]) == 1
    path.write_bytes(REPORT.encode("utf-16"))
    assert main(["detect", "--from", str(path)]) == 1


@pytest.mark.parametrize(
    "arguments",
    [["--snapshot", "x"], ["--record", "x"], ["--watch"], ["--cpu-only"], []],
    ids=lambda arguments: " ".join(arguments) or "no such file",
)
def test_pasted_text_excludes_other_machines(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["detect", "--from", str(tmp_path / "absent"), *arguments]) == 2
    assert "hint:" in capsys.readouterr().err


def test_readers_of_pasted_texts_are_not_loaded_for_a_live_machine() -> None:
    code = (
        "import sys, gpuforge; gpuforge.detect(refresh=True);"
        "loaded = [m for m in sys.modules if m.startswith('gpuforge.detect.text.')];"
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

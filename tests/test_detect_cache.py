"""The cache believes a machine for as long as it is the same, and not one value longer."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

import gpuforge
from gpuforge.detect import cache as cache_module
from gpuforge.detect import stored
from gpuforge.detect.cache import MACHINES_KEPT, Cache, fingerprint, identity
from gpuforge.facts import Absent, Device, Machine, known
from gpuforge.probe import SnapshotProbe
from gpuforge.settings import Settings

MACHINE = Machine("ok", (Device(0, "nvidia", name="X", memory_free_bytes=7, score=3),))


@pytest.fixture
def probe(tmp_path: Path) -> SnapshotProbe:
    return snapshot(tmp_path / "a", "0000\t10de2204\t10\t0\tnvidia\n")


def snapshot(folder: Path, devices: str, **environ: str) -> SnapshotProbe:
    path = folder / "sysroot" / "proc" / "bus" / "pci"
    path.mkdir(parents=True, exist_ok=True)
    (path / "devices").write_text(devices)
    return SnapshotProbe(folder, environ)


@pytest.fixture
def kept(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache", 3600)


def test_kept_machine_comes_back_without_free_memory(kept: Cache, probe: SnapshotProbe) -> None:
    kept.put(probe, MACHINE)
    found = kept.get(probe)
    assert found is not None and found.from_cache
    assert known(found.devices[0].name) == "X"
    assert isinstance(found.devices[0].memory_free_bytes, Absent)


def test_changed_machine_is_dropped(kept: Cache, probe: SnapshotProbe, tmp_path: Path) -> None:
    kept.put(probe, MACHINE)
    changed = snapshot(tmp_path / "a", "0000\t10de2330\t10\t0\tnvidia\n")
    assert kept.get(changed) is None
    assert not list(kept.folder.glob("machine-*"))


def test_interrupts_do_not_change_the_fingerprint(tmp_path: Path) -> None:
    cells = ["0100", "10de2204", "1a"] + ["0"] * 14
    one = snapshot(tmp_path / "a", "\t".join([*cells, "nvidia"]) + "\n")
    cells[2] = "ff"
    other = snapshot(tmp_path / "b", "\t".join([*cells, "nvidia"]) + "\n")
    assert fingerprint(one) == fingerprint(other)
    third = snapshot(tmp_path / "c", "\t".join([*cells, "nouveau"]) + "\n")
    assert fingerprint(one) != fingerprint(third)


def test_visibility_is_a_machine_of_its_own(tmp_path: Path) -> None:
    one = snapshot(tmp_path / "a", "x", CUDA_VISIBLE_DEVICES="0")
    other = snapshot(tmp_path / "a", "x", CUDA_VISIBLE_DEVICES="1")
    assert identity(one) != identity(other)


def test_old_machine_is_not_believed(kept: Cache, probe: SnapshotProbe) -> None:
    kept.put(probe, MACHINE)
    kept.seconds = 0
    assert kept.get(probe) is None


def test_machine_from_the_future_is_not_believed(
    kept: Cache, probe: SnapshotProbe, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = cache_module.time.time
    monkeypatch.setattr(cache_module.time, "time", lambda: real() + 9e5)
    kept.put(probe, MACHINE)
    monkeypatch.undo()
    assert kept.get(probe) is None


@pytest.mark.parametrize("damage", [b"", b"\0" * 50, b"123 abc\n{", b"12 a\n00000000 {}"])
def test_damaged_file_is_counted_and_not_believed(
    kept: Cache, probe: SnapshotProbe, damage: bytes
) -> None:
    kept.put(probe, MACHINE)
    (path,) = kept.folder.glob("machine-*")
    path.write_bytes(damage)
    assert kept.get(probe) is None and kept.rebuilt == 1


def test_every_flipped_byte_is_noticed(kept: Cache, probe: SnapshotProbe) -> None:
    text = stored.dumps(MACHINE)
    for place in range(0, len(text), 7):
        broken = text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :]
        assert stored.loads(broken) is None


def test_least_recently_used_machines_go(kept: Cache, tmp_path: Path) -> None:
    for number in range(MACHINES_KEPT + 5):
        other = snapshot(tmp_path / "m", "x", CUDA_VISIBLE_DEVICES=str(number))
        kept.put(other, MACHINE)
        (path,) = kept.folder.glob(f"machine-{identity(other)}.json")
        os.utime(path, (number, number))
    kept._drop_oldest()
    assert len(list(kept.folder.glob("machine-*"))) == MACHINES_KEPT
    assert kept.get(snapshot(tmp_path / "m", "x", CUDA_VISIBLE_DEVICES="0")) is None


def test_folder_that_cannot_be_written_costs_nothing(probe: SnapshotProbe, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    Cache(tmp_path / "file" / "below", 60).put(probe, MACHINE)


def test_second_call_comes_from_the_cache_and_refresh_does_not() -> None:
    assert not gpuforge.detect().from_cache
    assert gpuforge.detect().from_cache
    assert not gpuforge.detect(refresh=True).from_cache


def test_settings_switch_the_cache_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUFORGE_DETECT_CACHE", "0")
    gpuforge.detect()
    assert not gpuforge.detect().from_cache
    monkeypatch.delenv("GPUFORGE_DETECT_CACHE")
    gpuforge.detect()
    monkeypatch.setenv("GPUFORGE_CACHE_SECONDS", "0")
    assert not gpuforge.detect().from_cache


def test_damaged_cache_is_rebuilt_and_said(own_home: Path) -> None:
    gpuforge.detect()
    (path,) = (own_home / "cache" / "gpuforge" / "detect").glob("machine-*")
    path.write_text("nonsense")
    machine = gpuforge.detect()
    assert any("rebuilt" in note for note in machine.notes)
    assert gpuforge.detect().from_cache


def test_hidden_by_a_variable_set_later_is_another_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpuforge.detect()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    machine = gpuforge.detect()
    assert not machine.from_cache and machine.visibility == {"CUDA_VISIBLE_DEVICES": ""}


def test_vendors_one_after_the_other_find_the_same() -> None:
    one = gpuforge.detect(settings=replace(Settings(), detect_cache=False, detect_parallel=False))
    other = gpuforge.detect(settings=replace(Settings(), detect_cache=False))
    assert (one.status, one.devices, one.host) == (other.status, other.devices, other.host)

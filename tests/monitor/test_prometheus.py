"""What Prometheus is told: read by its own parser, in both name sets; the unknown has no series."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuforge.facts import NOT_SHOWN, Failed
from gpuforge.monitor.anomaly import Anomaly
from tests.monitor.conftest import Dashboard, eventually
from tests.monitor.made_sample import GIB, HOSTILE, sample

prometheus_client = pytest.importorskip("prometheus_client")

from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_families  # noqa: E402
from prometheus_client.parser import text_string_to_metric_families as text_families  # noqa: E402

from gpuforge.monitor.prometheus import Now, exposition  # noqa: E402

EXAMPLES = Path(__file__).parents[2] / "examples/monitoring"
OPEN = "application/openmetrics-text; version=1.0.0"
ANOMALY = Anomaly("throttling", "GPU 1", "warning", "held down", "cool it")
NOW = Now(sample(400, taken_at=1e9), [ANOMALY], 0.003, {("1", "temperature"): 12.5})


def read(now: Now = NOW, accept: str = "", *, dcgm: bool = False) -> dict[str, list[Any]]:
    """Return the samples by name, as Prometheus' own parser reads them."""
    text, kind = exposition(now, accept, dcgm=dcgm)
    assert kind.startswith("application/openmetrics-text" if accept else "text/plain")
    families = (open_families if accept else text_families)(text.decode())
    found: dict[str, list[Any]] = {}
    for family in families:
        assert family.samples
        for one in family.samples:
            found.setdefault(one.name, []).append(one)
    return found


def value(found: dict[str, list[Any]], name: str, **labels: str) -> float:
    (one,) = [s for s in found[name] if labels.items() <= s.labels.items()]
    return float(one.value)


@pytest.mark.parametrize("accept", ["", OPEN])
def test_our_names_in_base_units(accept: str) -> None:
    found = read(accept=accept)
    assert not [name for name in found if not name.startswith("gpuforge_")]
    assert value(found, "gpuforge_gpu_memory_total_bytes", gpu="0") == 80 * GIB
    assert value(found, "gpuforge_gpu_clock_hertz", gpu="0", domain="core") == 1.7e9
    assert value(found, "gpuforge_gpu_energy_joules_total", gpu="1") == 3.6e6
    assert 0 < value(found, "gpuforge_gpu_utilization_ratio", gpu="1") <= 1
    assert (
        value(found, "gpuforge_gpu_throttle_seconds_total", gpu="1", reason="temperature") == 12.5
    )
    assert value(found, "gpuforge_gpu_errors_total", gpu="1", type="xid_79") == 1
    use = {"pid": "4711", "backend": "torch:cuda:0"}
    moved = "gpuforge_process_transfer_bytes_total"
    assert value(found, moved, direction="to_device", **use) == 4096 * 400
    assert value(found, moved, direction="from_device", **use) == 512 * 400
    assert value(found, "gpuforge_process_compared_calls_total", **use) == 30 * 400
    assert value(found, "gpuforge_process_regret_seconds_total", **use) == 0.01 * 400
    assert value(found, "gpuforge_process_memory_events_total", event="exhausted", **use) == 2
    assert value(found, "gpuforge_process_released_bytes_total", **use) == 5 * GIB
    assert value(found, "gpuforge_gpu_errors_total", gpu="0", type="ecc_corrected") == 2
    assert value(found, "gpuforge_gpu_process_memory_bytes", gpu="0", pid="4711") == 19 * GIB
    info = {"vendor": "nvidia", "model": "NVIDIA H100 80GB", "uuid": "GPU-00"}
    assert value(found, "gpuforge_gpu_info", gpu="0", **info) == 1
    assert value(found, "gpuforge_process_tasks", pid="4711", state="waiting") == 3
    assert value(found, "gpuforge_process_tasks_ended_total", pid="4711", state="done") == 2800
    assert value(found, "gpuforge_process_calls_total", pid="4711", backend="numpy") == 4000
    assert value(found, "gpuforge_anomaly", rule="throttling", subject="GPU 1") == 1
    assert value(found, "gpuforge_monitor_last_sample_timestamp_seconds") == 1e9
    assert value(found, "gpuforge_process_resident_bytes", program=HOSTILE) == 3 * GIB


@pytest.mark.parametrize("accept", ["", OPEN])
def test_the_names_of_nvidias_exporter(accept: str) -> None:
    found = read(accept=accept, dcgm=True)
    assert read(accept=accept).keys() <= found.keys()
    expected = {
        "DCGM_FI_DEV_FB_USED": 20 * 1024, "DCGM_FI_DEV_FB_FREE": 60 * 1024,
        "DCGM_FI_DEV_GPU_TEMP": 66, "DCGM_FI_DEV_SM_CLOCK": 1700, "DCGM_FI_DEV_MEM_COPY_UTIL": 40,
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 3.6e9, "DCGM_FI_DEV_XID_ERRORS": 0,
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": 2, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": 0,
    }  # fmt: skip
    for name, number in expected.items():
        assert value(found, name, gpu="0", UUID="GPU-00", device="nvidia0") == pytest.approx(number)
    assert value(found, "DCGM_FI_DEV_XID_ERRORS", gpu="1") == 79
    assert 80 < value(found, "DCGM_FI_DEV_GPU_UTIL", gpu="0") < 100
    labels = found["DCGM_FI_DEV_FB_USED"][0].labels
    assert set(labels) == {"gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname"}


def test_what_is_unknown_has_no_series() -> None:
    from dataclasses import replace

    made = sample(400)
    first = replace(
        made.devices[0], power_watts=NOT_SHOWN, temperature_celsius=Failed("it broke"),
        memory_used_bytes=NOT_SHOWN, xids=NOT_SHOWN,
    )  # fmt: skip
    found = read(Now(replace(made, devices=(first,)), [], 0.0, {}), dcgm=True)
    for name in (
        "gpuforge_gpu_power_watts", "gpuforge_gpu_temperature_celsius", "DCGM_FI_DEV_FB_FREE",
        "gpuforge_gpu_memory_used_bytes", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_XID_ERRORS",
        "gpuforge_anomaly",
        "gpuforge_gpu_throttle_seconds_total",
    ):  # fmt: skip
        assert name not in found
    assert value(found, "gpuforge_gpu_memory_total_bytes", gpu="0") == 80 * GIB


def test_before_the_first_sample_there_is_nothing() -> None:
    assert read(Now(None, [], 0.0, {})) == {}


def test_the_dashboard_answers_in_both_name_sets(dashboard: Dashboard) -> None:
    eventually(lambda: b"throttle_seconds_total" in dashboard.get("/metrics")[2], "two samples")
    for query, dcgm in (("", False), ("?compat=dcgm", True)):
        status, headers, body = dashboard.get("/metrics" + query)
        assert status == 200
        assert headers["Content-Type"].startswith("text/plain")
        names = {family.name for family in text_families(body.decode())}
        assert any(name.startswith("DCGM_") for name in names) == dcgm
        assert "gpuforge_gpu_power_watts" in names
    assert dashboard.get("/metrics", Accept=OPEN)[1]["Content-Type"].startswith(OPEN.split(";")[0])
    assert dashboard.get("/metrics?compat=other")[0] == 400


def test_the_sample_files_name_what_is_exported() -> None:
    known = set(read(dcgm=True))
    rules = yaml.safe_load((EXAMPLES / "alerts.yml").read_text(encoding="utf-8"))
    asked = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    grafana = json.loads((EXAMPLES / "grafana.json").read_text(encoding="utf-8"))
    asked += [target["expr"] for panel in grafana["panels"] for target in panel["targets"]]
    assert len(asked) > 10
    for expression in asked:
        names = re.findall(r"gpuforge_\w+", expression)
        assert names, expression
        assert set(names) <= known, expression
    scrape = yaml.safe_load((EXAMPLES / "prometheus.yml").read_text(encoding="utf-8"))
    assert scrape["rule_files"] == ["alerts.yml"]
    (job,) = scrape["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["127.0.0.1:8765"]}]

"""What OpenTelemetry is told, received by a real collector's protocol over HTTP on loopback."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from gpuforge.errors import BackendUnavailable
from gpuforge.monitor import opentelemetry
from tests.monitor.conftest import eventually
from tests.monitor.made_sample import GIB, sample


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """Return the requests that arrive where the environment says to export to."""
    received: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            packed = self.headers.get("Content-Encoding") == "gzip"
            received.append(gzip.decompress(body) if packed else body)
            assert self.path == "/v1/metrics"
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "100")
        yield received
        server.shutdown()
        thread.join()


def test_the_newest_sample_arrives(collector: list[bytes]) -> None:
    pytest.importorskip("opentelemetry.sdk")
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2

    provider = opentelemetry.start_export(lambda: sample(400))
    try:
        eventually(lambda: collector, "an export")
    finally:
        provider.shutdown()
    request = metrics_service_pb2.ExportMetricsServiceRequest.FromString(collector[0])
    (resource,) = request.resource_metrics
    named = {a.key: a.value.string_value for a in resource.resource.attributes}
    assert named["service.name"] == "gpuforge"
    metrics = {m.name: m for scope in resource.scope_metrics for m in scope.metrics}
    used = metrics["hw.gpu.memory.usage"]
    assert used.unit == "By"
    assert points(used.sum)["GPU-00"] == 20 * GIB
    assert points(metrics["hw.temperature"].gauge) == {"GPU-00": 66, "GPU-11": 67}
    assert metrics["hw.energy"].sum.is_monotonic
    assert not metrics["hw.gpu.memory.limit"].sum.is_monotonic
    kinds = {label(p, "error.type") for p in metrics["hw.errors"].sum.data_points}
    assert kinds == {"corrected", "uncorrected"}
    moved = metrics["gpuforge.transfer.size"]
    assert moved.unit == "By" and moved.sum.is_monotonic
    there = {
        (label(p, "gpuforge.backend"), label(p, "direction")): p.as_int
        for p in moved.sum.data_points
        if label(p, "gpuforge.program") == "train.py"
    }
    assert there["torch:cuda:0", "to_device"] == 4096 * 400 and there["numpy", "to_device"] == 0
    lost = {
        label(p, "gpuforge.backend"): p.as_double
        for p in metrics["gpuforge.call.regret"].sum.data_points
    }
    assert lost["torch:cuda:0"] == 0.01 * 400
    events = {label(p, "event") for p in metrics["gpuforge.memory.events"].sum.data_points}
    assert events == {"warning", "critical", "exhausted", "released"}


def points(data: Any) -> dict[str, float]:
    """Return the value of each device."""
    return {label(p, "hw.id"): p.as_double or p.as_int for p in data.data_points}


def label(point: Any, name: str) -> str:
    (found,) = [a.value.string_value for a in point.attributes if a.key == name]
    return str(found)


def test_it_is_off_unless_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not opentelemetry.is_configured({"OTEL_EXPORTER_OTLP_ENDPOINT": ""})
    assert opentelemetry.is_configured({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://x"})


def test_without_its_packages_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.metrics", None)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter", None)
    with pytest.raises(BackendUnavailable) as raised:
        opentelemetry.start_export(lambda: None)
    assert raised.value.hint == "install it: pip install 'gpuforge[otel]'"

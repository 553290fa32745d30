"""Export of the newest sample to OpenTelemetry, under its semantic conventions for hardware.

The export is configured by OpenTelemetry's own variables, such as ``OTEL_EXPORTER_OTLP_ENDPOINT``.
Metrics without a conventional name are called ``gpuforge.*``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from gpuforge.errors import BackendUnavailable
from gpuforge.facts import known
from gpuforge.monitor.sample import Sample
from gpuforge.readings.model import DeviceReading

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Observation
    from opentelemetry.sdk.metrics import MeterProvider

VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
INSTALL = "pip install 'gpuforge[otel]'"

# Name, unit, kind of instrument, field of the device, attributes.
_DEVICE: tuple[tuple[str, str, str, str, Mapping[str, str]], ...] = (
    ("hw.gpu.utilization", "1", "gauge", "utilization_ratio", {"hw.gpu.task": "general"}),
    ("hw.gpu.memory.usage", "By", "up_down_counter", "memory_used_bytes", {}),
    ("hw.gpu.memory.limit", "By", "up_down_counter", "memory_total_bytes", {}),
    ("hw.power", "W", "gauge", "power_watts", {}),
    ("hw.energy", "J", "counter", "energy_joules", {}),
    ("hw.temperature", "Cel", "gauge", "temperature_celsius", {}),
    ("hw.temperature.limit", "Cel", "gauge", "temperature_limit_celsius", {}),
    ("hw.errors", "{error}", "counter", "ecc_corrected", {"error.type": "corrected"}),
    ("hw.errors", "{error}", "counter", "ecc_uncorrected", {"error.type": "uncorrected"}),
    ("gpuforge.gpu.clock", "Hz", "gauge", "core_clock_hertz", {"domain": "core"}),
    ("gpuforge.gpu.clock", "Hz", "gauge", "memory_clock_hertz", {"domain": "memory"}),
)

# Name, unit, field of a process's use of a backend, attributes; all are counters.
_BACKEND: tuple[tuple[str, str, str, Mapping[str, str]], ...] = (
    ("gpuforge.calls", "{call}", "calls", {}),
    ("gpuforge.call.time", "s", "seconds", {}),
    ("gpuforge.call.compared", "{call}", "compared_calls", {}),
    ("gpuforge.call.regret", "s", "lost_seconds", {}),
    ("gpuforge.transfer.size", "By", "put_bytes", {"direction": "to_device"}),
    ("gpuforge.transfer.size", "By", "got_bytes", {"direction": "from_device"}),
    ("gpuforge.memory.events", "{event}", "pressure.warnings", {"event": "warning"}),
    ("gpuforge.memory.events", "{event}", "pressure.criticals", {"event": "critical"}),
    ("gpuforge.memory.events", "{event}", "pressure.exhausted", {"event": "exhausted"}),
    ("gpuforge.memory.events", "{event}", "pressure.released", {"event": "released"}),
    ("gpuforge.memory.released", "By", "pressure.released_bytes", {}),
)


def is_configured(environment: Mapping[str, str]) -> bool:
    """Return whether the environment variables name an endpoint."""
    return any(environment.get(name) for name in VARIABLES)


def start_export(newest: Callable[[], Sample | None]) -> MeterProvider:
    """Export the result of `newest` periodically until ``shutdown()`` of the returned provider.

    Raises
    ------
    BackendUnavailable
        If OpenTelemetry's SDK or its exporter is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
    except ImportError as error:
        raise BackendUnavailable(
            f"{VARIABLES[0]} is set, but OpenTelemetry cannot be imported: {error}",
            hint=f"install it: {INSTALL}",
        ) from None
    reader = PeriodicExportingMetricReader(OTLPMetricExporter())
    resource = Resource.create()  # reads OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES
    if str(resource.attributes.get("service.name", "")).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": "gpuforge"}))
    provider = MeterProvider([reader], resource=resource)
    meter = provider.get_meter("gpuforge")
    kinds = [(name, unit, kind) for name, unit, kind, _, _ in _DEVICE]
    kinds += [(name, unit, "counter") for name, unit, _, _ in _BACKEND]
    for name, unit, kind in dict.fromkeys(kinds):
        make = getattr(meter, f"create_observable_{kind}")
        make(name, callbacks=[_observed(name, newest)], unit=unit)
    return provider


def _observed(
    name: str, newest: Callable[[], Sample | None]
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    """Return the callback that yields the values of one metric at each export."""
    ways = [(field, attributes) for n, _, _, field, attributes in _DEVICE if n == name]
    uses = [(attrgetter(field), attributes) for n, _, field, attributes in _BACKEND if n == name]

    def observe(_: CallbackOptions) -> Iterable[Observation]:
        from opentelemetry.metrics import Observation

        sample = newest()
        for device in sample.devices if sample else ():
            for field, attributes in ways:
                value = known(getattr(device, field))
                if value is not None:
                    yield Observation(value, {**_who(device), **attributes})
        for process in sample.processes if sample else ():
            who = {
                "process.pid": process.published.pid,
                "gpuforge.program": process.published.program,
            }
            for use in process.published.backends:
                for read, attributes in uses:
                    yield Observation(
                        read(use), {**who, "gpuforge.backend": use.name, **attributes}
                    )

    return observe


def _who(device: DeviceReading) -> dict[str, Any]:
    told = {
        "hw.id": known(device.uuid) or known(device.pci_address) or str(device.index),
        "hw.type": "gpu",
        "hw.name": f"GPU {device.index}",
        "hw.vendor": device.vendor,
        "hw.model": known(device.name),
    }
    return {name: value for name, value in told.items() if value is not None}

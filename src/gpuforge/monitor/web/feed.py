"""A feed of samples: one thread takes them, and any number of viewers receive them.

Each message is serialized once per sample, whatever the number of viewers. A slow viewer misses
samples, but does not delay the others.
"""

from __future__ import annotations

import asyncio
import json
import math
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from typing import Any

from gpuforge.log import logger
from gpuforge.monitor.anomaly import Anomaly, find_anomalies
from gpuforge.monitor.pressure import PressureEvents
from gpuforge.monitor.prometheus import Now
from gpuforge.monitor.sample import Sample
from gpuforge.monitor.values import document
from gpuforge.monitor.watch import KEPT_SECONDS, Watch
from gpuforge.monitor.web import charts

ANOMALIES_EVERY_SECONDS = 5.0
STILL_HERE_SECONDS = 15.0
_log = logger("serve")


class Feed:
    """Takes samples in a thread and sends them to viewers.

    Parameters
    ----------
    take
        Returns a sample; called in its own thread.
    facts
        Returns the facts about the machine for the page; called once, in another thread, because
        checks take seconds.
    interval_seconds
        Time between samples.

    Attributes
    ----------
    sample : the newest sample; None before the first
    anomalies : the anomalies that the rules found last
    problem : why the last sample could not be taken; empty if it could
    taken : number of samples taken so far
    viewers : number of connected viewers
    """

    def __init__(
        self,
        take: Callable[[], Sample],
        facts: Callable[[], dict[str, Any]],
        *,
        interval_seconds: float,
    ) -> None:
        self._take, self._facts = take, facts
        self.interval_seconds = interval_seconds
        self.sample: Sample | None = None
        self.anomalies: list[Anomaly] = []
        self.problem = ""
        self.taken = self.viewers = 0
        self._watch, self._pressure = Watch(), PressureEvents()
        self._costs: deque[float] = deque(maxlen=60)
        self._looked = self._arrived = float("-inf")
        self._messages: dict[str, bytes] = {}
        self._past = (-1, b"")
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    async def open(self) -> None:
        """Start sampling."""
        self._loop = asyncio.get_running_loop()
        self._news: asyncio.Future[None] = self._loop.create_future()
        for name, work in (("samples", self._sample), ("facts", self._publish_facts)):
            thread = threading.Thread(target=work, name=f"gpuforge-{name}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def close(self) -> None:
        """Stop sampling and end all streams to viewers; safe to call from a signal handler."""
        self._stop.set()
        self._loop.call_soon_threadsafe(self._wake)

    def join(self, seconds: float) -> None:
        """Wait at most `seconds` for each thread, which may be in the middle of a reading."""
        for thread in self._threads:
            thread.join(seconds)

    def age_seconds(self) -> float | None:
        """Return the age of the newest sample; None before the first."""
        return None if self.sample is None else time.monotonic() - self._arrived

    def overhead_ratio(self) -> float:
        """Return the CPU time of sampling and processing over the time between samples."""
        return sum(self._costs) / (len(self._costs) * self.interval_seconds) if self._costs else 0.0

    def now(self) -> dict[str, Any]:
        """Return the newest sample with its anomalies and pressure events as a JSON document."""
        told = document(self.sample) if self.sample else {}
        return {
            "schema_version": 1,
            **told,
            "problem": self.problem,
            "anomalies": [_anomaly(anomaly) for anomaly in self.anomalies],
            "pressure_events": [vars(event) for event in tuple(self._pressure.newest)],
            "interval_seconds": self.interval_seconds,
            "kept_seconds": KEPT_SECONDS,
            "overhead_ratio": self.overhead_ratio(),
            "viewers": self.viewers,
        }

    def exported(self) -> Now:
        """Return the data that `gpuforge.monitor.prometheus` exports."""
        throttled = self._watch.throttled_seconds.copy()
        return Now(self.sample, self.anomalies, self.overhead_ratio(), throttled)

    async def events(self) -> AsyncIterator[bytes]:
        """Yield server-sent events: the history, then each new state, until the feed is closed."""
        self.viewers += 1
        try:
            yield self._history()
            sent: dict[str, bytes] = {}
            while not self._stop.is_set():
                for name, message in list(self._messages.items()):
                    if message is not sent.get(name):
                        sent[name] = message
                        yield message
                try:
                    await asyncio.wait_for(asyncio.shield(self._news), STILL_HERE_SECONDS)
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            self.viewers -= 1

    def _sample(self) -> None:
        """Take samples until the feed is closed."""
        while not self._stop.is_set():
            started, worked = time.monotonic(), time.thread_time()
            try:
                sample = self._take()
                with self._lock:
                    self._watch.add(sample)
                    self._pressure.add(sample)
                self.sample, self.problem, self._arrived = sample, "", time.monotonic()
                self.taken += 1
                if abs(sample.taken_at - self._looked) >= ANOMALIES_EVERY_SECONDS:
                    self.anomalies = find_anomalies(self._watch.subjects(unbroken=True))
                    self._looked = sample.taken_at
                points = charts.points(self._watch.subjects(newest=True), sample.taken_at)
                state = _event("state", {**self.now(), "points": points})
            except Exception as error:  # noqa: BLE001 - any failure is shown, then tried again
                problem = f"no reading could be taken: {type(error).__name__}: {error}"
                if problem != self.problem:
                    _log.warning("%s", problem)
                self.problem = problem
                state = _event("problem", {"problem": problem})
            self._publish("state", state)
            self._costs.append(time.thread_time() - worked)
            self._stop.wait(max(0.0, self.interval_seconds - (time.monotonic() - started)))

    def _publish_facts(self) -> None:
        try:
            facts = self._facts()
        except Exception as error:  # noqa: BLE001 - the live readings do not depend on it
            problem = f"the machine could not be checked: {type(error).__name__}: {error}"
            _log.warning("%s", problem)
            facts = {"problem": problem}
        self._publish("facts", _event("facts", facts))

    def _publish(self, name: str, event: bytes) -> None:
        """Send an event to all viewers; later viewers receive the newest event of each name."""
        self._messages[name] = event
        if not self._stop.is_set():
            self._loop.call_soon_threadsafe(self._wake)

    def _history(self) -> bytes:
        """Return the charts so far as an event, cached until the next sample."""
        if self._past[0] != self.taken:
            with self._lock:
                subjects, moments = self._watch.subjects(), list(self._watch.moments)
            self._past = self.taken, _event("history", charts.history(subjects, moments))
        return self._past[1]

    def _wake(self) -> None:
        """Wake all viewers; runs in the event loop's thread."""
        news, self._news = self._news, self._loop.create_future()
        if not news.done():
            news.set_result(None)


def _event(name: str, message: dict[str, Any]) -> bytes:
    """Return a server-sent event."""
    return f"event: {name}\ndata: {json.dumps(message, allow_nan=False)}\n\n".encode()


def _anomaly(anomaly: Anomaly) -> dict[str, Any]:
    """Return an anomaly as a JSON document, with infinite seconds as null."""
    seconds = asdict(anomaly.forecast) if anomaly.forecast else {}
    finite = {name: value if math.isfinite(value) else None for name, value in seconds.items()}
    return {**asdict(anomaly), "forecast": finite or None}

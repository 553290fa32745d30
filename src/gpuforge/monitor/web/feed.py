"""One thread that samples, and any number of viewers that are sent what it found.

All that is sent is written once per sample, whoever looks. A viewer that is slow to read misses
samples; it holds nothing up.
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
    """What is known now, and who is told.

    Parameters
    ----------
    take
        Returns a sample; called in a thread of its own.
    facts
        Returns what the page says of the machine; called once, in another thread, because checks
        take seconds.
    interval_seconds
        From one sample to the next.

    Attributes
    ----------
    sample : the newest; None before the first
    anomalies : what the rules found last
    problem : why the newest sample could not be taken; empty where it could
    taken : samples taken so far
    viewers : how many are sent the feed now
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
        """Begin to sample."""
        self._loop = asyncio.get_running_loop()
        self._news: asyncio.Future[None] = self._loop.create_future()
        for name, work in (("samples", self._sample), ("facts", self._tell_facts)):
            thread = threading.Thread(target=work, name=f"gpuforge-{name}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def close(self) -> None:
        """Cease to sample, and end what is sent to viewers; safe to call from a signal."""
        self._stop.set()
        self._loop.call_soon_threadsafe(self._tell)

    def join(self, seconds: float) -> None:
        """Wait for the threads, which may be in the middle of a reading, for so long at most."""
        for thread in self._threads:
            thread.join(seconds)

    def age_seconds(self) -> float | None:
        """Return how long ago the newest sample was taken; None before the first."""
        return None if self.sample is None else time.monotonic() - self._arrived

    def overhead_ratio(self) -> float:
        """Return the CPU time of sampling and of all that follows, over the time it was for."""
        return sum(self._costs) / (len(self._costs) * self.interval_seconds) if self._costs else 0.0

    def now(self) -> dict[str, Any]:
        """Return the newest sample and what was made of it."""
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
        """Return what `gpuforge.monitor.prometheus` exports."""
        throttled = self._watch.throttled_seconds.copy()
        return Now(self.sample, self.anomalies, self.overhead_ratio(), throttled)

    async def events(self) -> AsyncIterator[bytes]:
        """Yield server-sent events: what was, then each new state, until the feed is closed."""
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
        """Take samples until told to stop."""
        while not self._stop.is_set():
            started, worked = time.monotonic(), time.thread_time()
            try:
                sample = self._take()
                with self._lock:
                    self._watch.add(sample)
                    self._pressure.add(sample)
                self.sample, self.problem, self._arrived = sample, "", time.monotonic()
                self.taken += 1
                if sample.taken_at - self._looked >= ANOMALIES_EVERY_SECONDS:
                    self.anomalies = find_anomalies(self._watch.subjects())
                    self._looked = sample.taken_at
                points = charts.points(self._watch.subjects(newest=True), sample.taken_at)
                state = _event("state", {**self.now(), "points": points})
            except Exception as error:  # noqa: BLE001 - whatever fails is shown, and tried again
                problem = f"no reading could be taken: {type(error).__name__}: {error}"
                if problem != self.problem:
                    _log.warning("%s", problem)
                self.problem = problem
                state = _event("problem", {"problem": problem})
            self._publish("state", state)
            self._costs.append(time.thread_time() - worked)
            self._stop.wait(max(0.0, self.interval_seconds - (time.monotonic() - started)))

    def _tell_facts(self) -> None:
        try:
            facts = self._facts()
        except Exception as error:  # noqa: BLE001 - the live readings do not depend on it
            problem = f"the machine could not be checked: {type(error).__name__}: {error}"
            _log.warning("%s", problem)
            facts = {"problem": problem}
        self._publish("facts", _event("facts", facts))

    def _publish(self, name: str, event: bytes) -> None:
        """Send an event to all; it takes the place of the one of its name for who comes later."""
        self._messages[name] = event
        if not self._stop.is_set():
            self._loop.call_soon_threadsafe(self._tell)

    def _history(self) -> bytes:
        """Return the charts until now as an event, one for all who come before the next."""
        if self._past[0] != self.taken:
            with self._lock:
                subjects, moments = self._watch.subjects(), list(self._watch.moments)
            self._past = self.taken, _event("history", charts.history(subjects, moments))
        return self._past[1]

    def _tell(self) -> None:
        """Wake all viewers; runs in the loop's thread."""
        news, self._news = self._news, self._loop.create_future()
        if not news.done():
            news.set_result(None)


def _event(name: str, message: dict[str, Any]) -> bytes:
    """Return a server-sent event."""
    return f"event: {name}\ndata: {json.dumps(message, allow_nan=False)}\n\n".encode()


def _anomaly(anomaly: Anomaly) -> dict[str, Any]:
    """Return an anomaly as a document; seconds that are not finite are null."""
    seconds = asdict(anomaly.forecast) if anomaly.forecast else {}
    finite = {name: value if math.isfinite(value) else None for name, value in seconds.items()}
    return {**asdict(anomaly), "forecast": finite or None}

"""Made series: ten minutes of a machine, once a second, with what should be found in them.

Each scene is a function of a random generator that returns subjects; its label, the rules that must
speak, was written before any rule was run on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from random import Random

from gpuforge.monitor.series import Subject

SECONDS = 600
TOTAL = 80 * 2**30
GIB = 2**30

Values = Iterable[float]
Scene = Callable[[Random], list[Subject]]
SCENES: dict[str, tuple[Scene, frozenset[str]]] = {}
HARD: dict[str, tuple[Scene, frozenset[str]]] = {}


def scene(*rules: str, hard: bool = False) -> Callable[[Scene], Scene]:
    """Register a scene in which just these rules must speak; a hard one is near their limits."""

    def keep(made: Scene) -> Scene:
        (HARD if hard else SCENES)[made.__name__] = (made, frozenset(rules))
        return made

    return keep


def gpu(r: Random, index: int = 0, *, busy: float = 0.95, **series: Values | float) -> Subject:
    """Return a GPU that works steadily, with these series instead of the usual ones."""
    usual: dict[str, Values | float] = {
        "utilization_ratio": [min(1, max(0, r.gauss(busy, 0.03))) for _ in range(SECONDS)],
        "memory_used_bytes": [30 * GIB + r.gauss(0, 0.02 * GIB) for _ in range(SECONDS)],
        "memory_total_bytes": TOTAL,
        "temperature_celsius": [round(r.gauss(68, 0.7)) for _ in range(SECONDS)],
        "temperature_limit_celsius": 87.0,
        "power_watts": [r.gauss(400, 12) for _ in range(SECONDS)],
        "core_clock_hertz": [r.gauss(1.7e9, 1e7) for _ in range(SECONDS)],
        "core_clock_max_hertz": 1.98e9,
        "link_width": 16.0,
        "link_width_max": 16.0,
        "ecc_corrected": 3.0,
        "ecc_uncorrected": 0.0,
    }
    return subject(f"GPU {index}", "gpu", {**usual, **series}, "H100")


def process(**series: Values | float) -> Subject:
    return subject("process 41", "process", series)


def subject(name: str, kind: str, given: dict[str, Values | float], model: str = "") -> Subject:
    """Return a subject; a number stands for itself all the time, ``__`` for a colon."""
    series = {}
    for key, values in given.items():
        flat = [values] * SECONDS if isinstance(values, int | float) else list(values)
        head, colon, word = key.partition("__")
        series[f"{head}:{word.replace('_', ' ')}" if colon else key] = [
            (1e9 + n, float(v)) for n, v in enumerate(flat)
        ]
    return Subject(name, kind, model, series)  # type: ignore[arg-type]


def finishing(rate: Callable[[int], float], r: Random) -> list[float]:
    """Return how many tasks have finished by each second, at a rate that may change."""
    found, done = [], 0.0
    for second in range(SECONDS):
        done += max(0.0, r.gauss(rate(second), 0.2 * rate(second)))
        found.append(math.floor(done))
    return found


# --- nothing is wrong ---------------------------------------------------------------------------
@scene()
def idle(r: Random) -> list[Subject]:
    return [gpu(r, busy=0.0, core_clock_hertz=2.1e8, memory_used_bytes=4e6)]


@scene()
def steady_training(r: Random) -> list[Subject]:
    return [gpu(r, n) for n in range(4)]


@scene()
def memory_that_comes_and_goes(r: Random) -> list[Subject]:
    period = r.randint(5, 50)
    used = [(20 + 30 * (n % period) / period) * GIB for n in range(SECONDS)]
    return [gpu(r, memory_used_bytes=used)]


@scene()
def memory_in_long_waves(r: Random) -> list[Subject]:
    period = r.randint(90, 240)
    used = [(30 + 20 * math.sin(2 * math.pi * n / period)) * GIB for n in range(SECONDS)]
    return [gpu(r, memory_used_bytes=used)]


@scene()
def a_model_is_loaded(r: Random) -> list[Subject]:
    end = r.randint(60, 250)
    used = [min(n / end, 1) * 50 * GIB + abs(r.gauss(0, 0.05 * GIB)) for n in range(SECONDS)]
    return [gpu(r, memory_used_bytes=used)]


@scene()
def two_models_are_loaded(r: Random) -> list[Subject]:
    first, second = sorted(r.sample(range(30, 570), 2))
    used = [(5 + 20 * (n > first) + 20 * (n > second)) * GIB for n in range(SECONDS)]
    return [gpu(r, memory_used_bytes=used)]


@scene()
def a_cache_that_fills_and_levels_off(r: Random) -> list[Subject]:
    scale = r.uniform(60, 130)
    used = [(10 + 40 * (1 - math.exp(-n / scale))) * GIB for n in range(SECONDS)]
    return [gpu(r, memory_used_bytes=used)]


@scene()
def memory_that_wanders_about_a_level(r: Random) -> list[Subject]:
    level, used = 0.0, []
    for _ in range(SECONDS):
        level = 0.97 * level + r.gauss(0, 0.1 * GIB)
        used.append(30 * GIB + level)
    return [gpu(r, memory_used_bytes=used)]


@scene()
def warming_up(r: Random) -> list[Subject]:
    scale = r.uniform(50, 110)
    heat = [round(35 + 40 * (1 - math.exp(-n / scale)) + r.gauss(0, 0.5)) for n in range(SECONDS)]
    return [gpu(r, temperature_celsius=heat)]


@scene()
def slowly_warmer_far_below_the_limit(r: Random) -> list[Subject]:
    return [gpu(r, temperature_celsius=[round(40 + 6 * n / SECONDS) for n in range(SECONDS)])]


@scene()
def temperature_that_follows_the_load(r: Random) -> list[Subject]:
    period = r.randint(60, 200)
    heat = [round(70 + 8 * math.sin(2 * math.pi * n / period)) for n in range(SECONDS)]
    return [gpu(r, temperature_celsius=heat)]


@scene()
def at_the_power_limit_near_full_clock(r: Random) -> list[Subject]:
    clock = [r.gauss(1.8e9, 1e7) for _ in range(SECONDS)]
    return [gpu(r, throttle_reasons__power_cap=1.0, core_clock_hertz=clock)]


@scene()
def a_short_thermal_dip(r: Random) -> list[Subject]:
    at = r.randint(300, 590)
    held = [float(at <= n < at + 8) for n in range(SECONDS)]
    return [gpu(r, throttle_reasons__temperature=held)]


@scene()
def lanes_given_up_while_idle(r: Random) -> list[Subject]:
    return [gpu(r, busy=0.0, utilization_ratio=0.0, link_width=1.0, core_clock_hertz=2e8)]


@scene()
def old_memory_errors(r: Random) -> list[Subject]:
    return [gpu(r, ecc_uncorrected=4.0, ecc_corrected=900.0)]


@scene()
def a_few_corrected_errors(r: Random) -> list[Subject]:
    return [gpu(r, ecc_corrected=[float(n // 150) for n in range(SECONDS)])]


@scene()
def a_long_queue_that_moves(r: Random) -> list[Subject]:
    return [gpu(r), process(tasks_waiting=200.0, tasks_finished=finishing(lambda _: 3, r))]


@scene()
def long_tasks(r: Random) -> list[Subject]:
    pause = r.randint(31, 90)
    finished = [float(n // pause) for n in range(SECONDS)]
    return [gpu(r), process(tasks_waiting=9.0, tasks_finished=finished)]


@scene()
def a_program_that_is_done(r: Random) -> list[Subject]:
    end = r.randint(300, 500)
    busy = [0.95 if n < end else 0.0 for n in range(SECONDS)]
    done = [float(min(n, end)) for n in range(SECONDS)]
    waiting = [float(max(0, end - n)) for n in range(SECONDS)]
    return [gpu(r, utilization_ratio=busy), process(tasks_waiting=waiting, tasks_finished=done)]


@scene()
def an_idle_one_among_equals(r: Random) -> list[Subject]:
    return [*(gpu(r, n) for n in range(3)), gpu(r, 3, busy=0.02, core_clock_hertz=3e8)]


@scene()
def equals_that_differ_a_little(r: Random) -> list[Subject]:
    return [gpu(r, n, core_clock_hertz=1.7e9 * r.uniform(0.96, 1.04)) for n in range(8)]


# --- something is wrong -------------------------------------------------------------------------
@scene("memory_growth")
def a_steady_leak(r: Random) -> list[Subject]:
    rate = r.uniform(0.1, 4) * GIB / 60
    used = [20 * GIB + rate * n + r.gauss(0, 0.02 * GIB) for n in range(SECONDS)]
    return [gpu(r, memory_used_bytes=used)]


@scene("memory_growth")
def a_leak_below_what_comes_and_goes(r: Random) -> list[Subject]:
    rate, period = r.uniform(0.3, 2) * GIB / 60, r.randint(5, 30)
    used = [(15 + 10 * (n % period) / period) * GIB + rate * n for n in range(SECONDS)]
    return [gpu(r, memory_used_bytes=used)]


@scene("memory_growth")
def a_leak_in_steps(r: Random) -> list[Subject]:
    every, size = r.randint(10, 50), r.uniform(0.3, 1.5) * GIB
    return [gpu(r, memory_used_bytes=[20 * GIB + size * (n // every) for n in range(SECONDS)])]


@scene("memory_growth")
def an_uneven_leak(r: Random) -> list[Subject]:
    used, level = [], 20.0 * GIB
    for _ in range(SECONDS):
        level += max(0.0, r.gauss(0.02 * GIB, 0.05 * GIB))
        used.append(level)
    return [gpu(r, memory_used_bytes=used)]


@scene("memory_growth")
def a_leak_that_began_after_a_while(r: Random) -> list[Subject]:
    begin = r.randint(60, 300)
    used = [(20 + max(0, n - begin) / 30) * GIB for n in range(SECONDS)]
    return [gpu(r, memory_used_bytes=used)]


@scene("throttling")
def too_hot_all_the_time(r: Random) -> list[Subject]:
    return [gpu(r, throttle_reasons__temperature=1.0, core_clock_hertz=1.3e9)]


@scene("throttling")
def too_hot_now_and_then(r: Random) -> list[Subject]:
    held = [float(n % 20 < 7) for n in range(SECONDS)]
    return [gpu(r, throttle_reasons__temperature=held)]


@scene("throttling")
def a_power_limit_far_below_full_clock(r: Random) -> list[Subject]:
    return [gpu(r, throttle_reasons__power_cap=1.0, core_clock_hertz=1.2e9)]


@scene("stalled_queue")
def a_task_that_hangs(r: Random) -> list[Subject]:
    since = r.randint(300, 550)
    finished = finishing(lambda n: 2 if n < since else 0, r)
    return [gpu(r), process(tasks_waiting=12.0, tasks_finished=finished)]


@scene("stalled_queue")
def a_queue_that_never_began(r: Random) -> list[Subject]:
    return [gpu(r, busy=0.0), process(tasks_waiting=5.0, tasks_finished=0.0)]


@scene("starved_device")
def inputs_that_come_too_slowly(r: Random) -> list[Subject]:
    since = r.randint(400, 560)
    busy = [r.gauss(0.95 if n < since else 0.2, 0.02) for n in range(SECONDS)]
    finished = finishing(lambda n: 4 if n < since else 0.8, r)
    tasks = process(tasks_waiting=50.0, tasks_finished=finished)
    return [gpu(r, utilization_ratio=busy), tasks]


@scene("narrow_link")
def a_card_with_four_lanes(r: Random) -> list[Subject]:
    return [gpu(r, link_width=r.choice([1.0, 4.0, 8.0]))]


@scene("device_errors")
def a_gpu_that_fell_off_the_bus(r: Random) -> list[Subject]:
    at = r.randint(100, 590)
    return [gpu(r, xids__79=[float(n >= at) for n in range(SECONDS)])]


@scene("device_errors")
def uncorrected_memory_errors(r: Random) -> list[Subject]:
    at = r.randint(100, 590)
    return [gpu(r, ecc_uncorrected=[2.0 * (n >= at) for n in range(SECONDS)])]


@scene("device_errors")
def many_corrected_memory_errors(r: Random) -> list[Subject]:
    return [gpu(r, ecc_corrected=[n * r.uniform(0.4, 0.5) for n in range(SECONDS)])]


@scene("temperature_trend")
def a_fan_that_fails(r: Random) -> list[Subject]:
    rate = r.uniform(0.6, 1.5) / 60
    heat = [round(66 + rate * n + r.gauss(0, 0.5)) for n in range(SECONDS)]
    return [gpu(r, temperature_celsius=heat)]


@scene("slow_device")
def one_slow_among_eight(r: Random) -> list[Subject]:
    slow = r.randrange(8)
    clocks = [1.7e9 * (r.uniform(0.6, 0.85) if n == slow else 1) for n in range(8)]
    return [gpu(r, n, core_clock_hertz=clock) for n, clock in enumerate(clocks)]


@scene("slow_device")
def one_slow_of_two(r: Random) -> list[Subject]:
    return [gpu(r, 0), gpu(r, 1, core_clock_hertz=1.2e9)]


@scene("throttling", "slow_device", "temperature_trend")
def a_hot_one_among_equals(r: Random) -> list[Subject]:
    heat = [round(70 + 1.2 * n / 60 + r.gauss(0, 0.4)) for n in range(SECONDS)]
    hot = gpu(
        r, 3, temperature_celsius=heat, core_clock_hertz=1.2e9, throttle_reasons__temperature=1.0
    )
    return [*(gpu(r, n) for n in range(3)), hot]


# --- near the limits of the rules: mistakes are to be expected here -----------------------------
@scene(hard=True)
def data_that_has_just_been_read(r: Random) -> list[Subject]:
    end = r.randint(350, 590)
    return [gpu(r, memory_used_bytes=[min(n / end, 1) * 50 * GIB for n in range(SECONDS)])]


@scene(hard=True)
def memory_that_wanders_slowly(r: Random) -> list[Subject]:
    level, used = 0.0, []
    for _ in range(SECONDS):
        level = 0.998 * level + r.gauss(0, 0.15 * GIB)
        used.append(30 * GIB + level)
    return [gpu(r, memory_used_bytes=used)]


@scene("memory_growth", hard=True)
def a_small_leak_under_much_noise(r: Random) -> list[Subject]:
    rate = r.uniform(0.1, 0.3) * GIB / 60
    used = [20 * GIB + rate * n + r.gauss(0, 1.0 * GIB) for n in range(SECONDS)]
    return [gpu(r, memory_used_bytes=used)]


@scene("memory_growth", hard=True)
def a_leak_below_long_waves(r: Random) -> list[Subject]:
    rate, period = r.uniform(0.5, 3) * GIB / 60, r.randint(70, 200)
    used = [(25 + 6 * math.sin(2 * math.pi * n / period)) * GIB + rate * n for n in range(SECONDS)]
    return [gpu(r, memory_used_bytes=used)]


@scene("memory_growth", hard=True)
def a_leak_by_the_epoch(r: Random) -> list[Subject]:
    every, size = r.randint(60, 150), r.uniform(0.5, 3) * GIB
    return [gpu(r, memory_used_bytes=[20 * GIB + size * (n // every) for n in range(SECONDS)])]


@scene("stalled_queue", hard=True)
def a_hang_among_slow_tasks(r: Random) -> list[Subject]:
    pause, since = r.randint(15, 60), r.randint(400, 540)
    finished = [float(min(n, since) // pause) for n in range(SECONDS)]
    return [gpu(r), process(tasks_waiting=9.0, tasks_finished=finished)]


@scene("starved_device", hard=True)
def a_device_that_was_never_very_busy(r: Random) -> list[Subject]:
    since, high = r.randint(300, 560), r.uniform(0.4, 0.7)
    busy = [max(0, r.gauss(high if n < since else 0.3 * high, 0.1)) for n in range(SECONDS)]
    tasks = process(tasks_waiting=50.0, tasks_finished=finishing(lambda _: 1, r))
    return [gpu(r, utilization_ratio=busy), tasks]


@scene(hard=True)
def uneven_work_with_a_queue(r: Random) -> list[Subject]:
    length = r.randint(10, 40)
    busy = [0.95 if n // length % 2 else 0.1 for n in range(SECONDS)]
    tasks = process(tasks_waiting=50.0, tasks_finished=finishing(lambda _: 1, r))
    return [gpu(r, utilization_ratio=busy), tasks]


@scene("temperature_trend", hard=True)
def a_slow_rise_under_a_swinging_load(r: Random) -> list[Subject]:
    rate, period = r.uniform(0.8, 1.5) / 60, r.randint(40, 150)
    wave = [4 * math.sin(2 * math.pi * n / period) for n in range(SECONDS)]
    heat = [round(66 + rate * n + wave[n] + r.gauss(0, 0.5)) for n in range(SECONDS)]
    return [gpu(r, temperature_celsius=heat)]


@scene("slow_device", hard=True)
def one_a_little_slow(r: Random) -> list[Subject]:
    clocks = [1.7e9 * (r.uniform(0.87, 0.92) if n == 0 else 1) for n in range(4)]
    return [gpu(r, n, core_clock_hertz=clock) for n, clock in enumerate(clocks)]


@scene("throttling", hard=True)
def throttled_for_a_while(r: Random) -> list[Subject]:
    seconds = r.randint(6, 30)
    held = [float(n >= SECONDS - seconds) for n in range(SECONDS)]
    return [gpu(r, throttle_reasons__temperature=held)]

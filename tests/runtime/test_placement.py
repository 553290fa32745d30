"""The policy alone: invented costs, no clock, no library."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuforge.runtime.placement.account import Account
from gpuforge.runtime.placement.evidence import Curve
from gpuforge.runtime.placement.peers import Peer, Peers
from gpuforge.runtime.placement.policy import (
    FEW_SIGNATURES,
    NUMPY,
    Candidate,
    Kind,
    Policy,
    charge,
    charge_compiled,
    observe,
)

Cost = Callable[[str, int], float]


def simulate(
    cost: Cost,
    sizes: list[int],
    candidates: list[Candidate],
    *,
    learn: bool = True,
    kind: Kind | None = None,
    compile_seconds: float = 0.0,
) -> tuple[list[str], float, Kind]:
    """Return where each call ran, what learning cost besides, and what is known at the end."""
    kind = kind or Kind()
    where, extra, account = [], 0.0, Account()
    for size in sizes:
        decision = Policy(account.allowance(), learn).decide(kind, size, size, candidates)
        name = decision.backend
        compiles = any(c.name == name and c.compiles for c in candidates)
        cell = kind.curve(name).cell(size)
        if compiles and not cell.ready:
            extra += compile_seconds
            account.add(0.0, compile_seconds)
            cell.ready = True
            charge(kind, size, name, compile_seconds, compile_seconds)
        else:
            observe(kind, size, size, name, cost(name, size), candidates)
            account.add(cost(NUMPY, size), cost(name, size))
        if decision.trial:
            price = 3 * cost(decision.trial, size) + compile_seconds
            curve = kind.curve(decision.trial)
            curve.verified = True
            charge(kind, size, decision.trial, price, compile_seconds)
            curve.cell(size).ready = True
            curve.add(size, size, cost(decision.trial, size))
            kind.tell(decision.trial, size, size)
            extra += price
            account.add(0.0, price)
        where.append(name)
    return where, extra, kind


def linear(overheads: dict[str, float], rates: dict[str, float]) -> Cost:
    return lambda name, size: overheads[name] + size * rates[name]


TWO = [Candidate(NUMPY), Candidate("fast", floor_seconds=5e-6)]


def test_first_call_runs_on_numpy_and_is_not_settled() -> None:
    decision = Policy().decide(Kind(), "s", 100, TWO)
    assert decision.backend == NUMPY
    assert not decision.settled


def test_a_faster_backend_is_found_and_kept() -> None:
    cost = linear({NUMPY: 1e-6, "fast": 2e-5}, {NUMPY: 1e-9, "fast": 2e-10})
    where, _, _ = simulate(cost, [10**7] * 60, TWO)
    assert where[-20:] == ["fast"] * 20


def test_small_calls_never_leave_numpy() -> None:
    cost = linear({NUMPY: 1e-6, "fast": 2e-5}, {NUMPY: 1e-9, "fast": 2e-10})
    where, extra, _ = simulate(cost, [16] * 5000, TWO)
    assert set(where) == {NUMPY}
    assert extra == 0


def test_a_slow_backend_is_tried_within_the_share() -> None:
    cost = linear({NUMPY: 1e-6, "fast": 2e-5}, {NUMPY: 1e-9, "fast": 2e-8})
    where, _extra, kind = simulate(cost, [10**6] * 1000, TWO)
    assert where.count("fast") <= 2
    assert kind.spent_seconds <= 0.1 * kind.busy_seconds + 3 * cost("fast", 10**6)


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_what_is_left_out_changes_no_decision(data: Any) -> None:
    """Nor what an observed call teaches about the backends that might have been faster."""
    seconds, sizes = st.floats(1e-6, 1e-2), st.sampled_from([10, 100, 1000])
    kind, candidates = Kind(), [Candidate(NUMPY)]
    samples = st.dictionaries(sizes, seconds, max_size=3)
    for name in ("fast", "jit", "busy"):
        compiles = name != "fast"
        candidates.append(Candidate(name, data.draw(seconds), compiles, 1e-4, name == "busy"))
        kind.curve(name).verified = data.draw(st.booleans())
        kind.curve(name).missed_seconds = data.draw(st.sampled_from([0.0, 1e-3]))
    for candidate in candidates:
        for size, took in data.draw(samples).items():
            kind.curve(candidate.name).add(size, size, took)
    size = data.draw(sizes)
    known_only = data.draw(st.booleans())
    policy = Policy(data.draw(st.sampled_from([-1.0, 0.0, 1.0])), known_only=known_only)
    every, few = copy.deepcopy(kind), copy.deepcopy(kind)
    prices = every.estimates(candidates, size, size, every=True)
    assert policy.decide(every, size, size, candidates, prices) == policy.decide(
        few, size, size, candidates
    )
    took = data.draw(seconds)
    for one in (every, few):
        observe(one, size, size, NUMPY, took, candidates)
    for name in ("fast", "jit", "busy"):
        assert every.curve(name).missed_seconds == few.curve(name).missed_seconds


def test_learning_off_tries_nothing() -> None:
    cost = linear({NUMPY: 1.0, "fast": 0.1}, {NUMPY: 0, "fast": 0})
    where, extra, _ = simulate(cost, [10] * 50, TWO, learn=False)
    assert set(where) == {NUMPY}
    assert extra == 0


def test_compiling_waits_until_it_would_have_paid() -> None:
    candidates = [Candidate(NUMPY), Candidate("jit", 1e-5, compiles=True)]
    cost = linear({NUMPY: 1e-4, "jit": 5e-5}, {NUMPY: 0, "jit": 0})
    where, _, _ = simulate(cost, [7] * 300, candidates, compile_seconds=0.2)
    assert "jit" not in where
    where, _, _ = simulate(cost, [7] * 40_000, candidates, compile_seconds=0.2)
    assert where[-1] == "jit"


def test_what_was_compiled_beside_the_program_is_tried_with_the_next_call() -> None:
    candidates, kind, policy = [Candidate(NUMPY), Candidate("jit", 1e-5, True)], Kind(), Policy(1.0)
    while not policy.decide(kind, "s", 7, candidates).trial:
        observe(kind, "s", 7, NUMPY, 10e-3, candidates)
    charge_compiled(kind, "jit", 0.1)
    kind.curve("jit").cell("s").ready = True
    assert policy.decide(kind, "s", 7, candidates).trial == "jit"
    assert kind.curve("jit").first_seconds == [0.1]
    assert kind.outlay_seconds == 0.1


def test_what_a_loop_may_take_to_record_counts_for_each_new_signature() -> None:
    def calls(kind: Kind) -> int:
        candidates, made = [Candidate(NUMPY), Candidate("fast")], 0
        kind.curve("fast").verified = True
        while not Policy(1.0).decide(kind, "s", 7, candidates).exploring:
            observe(kind, "s", 7, NUMPY, 1e-3, candidates)
            made += 1
        return made

    assert calls(Kind(first_recording_seconds=20e-3)) > 5 * calls(Kind())
    measured = Kind(first_recording_seconds=20e-3)
    measured.curve("fast").add("s", 7, 0.5e-3)
    plain = Kind()
    plain.curve("fast").add("s", 7, 0.5e-3)
    assert calls(measured) == calls(plain)


def test_a_refused_backend_is_never_chosen() -> None:
    kind = Kind()
    kind.curve("fast").refused = "other dtype"
    cost = linear({NUMPY: 1.0, "fast": 0.1}, {NUMPY: 0, "fast": 0})
    where, _, _ = simulate(cost, [10] * 50, TWO, kind=kind)
    assert set(where) == {NUMPY}


def test_a_backend_that_slows_down_is_left_within_200_calls() -> None:
    costs = {NUMPY: 1e-3, "fast": 3e-4}
    where, _, kind = simulate(lambda name, size: costs[name], [1000] * 300, TWO)
    assert where[-1] == "fast"
    costs["fast"] = 4e-3
    where, _, _ = simulate(lambda name, size: costs[name], [1000] * 200, TWO, kind=kind)
    assert where[-1] == NUMPY


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.lists(st.floats(1e-6, 1e-3), min_size=3, max_size=3),
    st.floats(1e-10, 1e-8),
    st.lists(st.floats(0.05, 20), min_size=2, max_size=2),
    st.integers(0, 2**32),
)
def test_any_linear_costs_end_near_the_best(
    overheads: list[float], rate: float, factors: list[float], seed: int
) -> None:
    rates = [rate, *(rate * factor for factor in factors)]
    names = [NUMPY, "a", "b"]
    cost = linear(dict(zip(names, overheads, strict=True)), dict(zip(names, rates, strict=True)))
    candidates = [Candidate(NUMPY), Candidate("a", 1e-6), Candidate("b", 1e-6)]
    sizes = [int(s) for s in 10 ** np.random.default_rng(seed).uniform(1, 6, 3000)]
    sizes = [2 ** int(np.log2(s)) for s in sizes]
    where, extra, kind = simulate(cost, sizes, candidates)
    late = list(zip(where, sizes, strict=True))[-1000:]
    routed = sum(cost(name, size) for name, size in late)
    oracle = sum(min(cost(n, size) for n in names) for _, size in late)
    assert routed <= 1.15 * oracle + 1e-3
    best_single = min(sum(cost(n, s) for s in sizes) for n in names)
    assert extra <= 0.25 * max(best_single, kind.busy_seconds) + 3 * max(
        cost(n, max(sizes)) for n in names
    )


def test_estimates_are_interpolated_and_never_below_what_was_measured() -> None:
    curve, reference = Curve(), Curve()
    for size, seconds in ((100, 1e-5), (10_000, 1e-3)):
        curve.add(size, size, seconds)
        reference.add(size, size, seconds)
    middle: Any = curve.estimate("new", 1000, reference)
    assert 1e-5 < middle.seconds < 1e-3
    assert middle.samples == 0
    assert "interpolated between 100 and 10000" in middle.evidence
    beyond: Any = curve.estimate("new", 10**6, reference)
    assert beyond.seconds >= 1e-3
    assert "scaled" in beyond.evidence


def test_the_first_sample_is_dropped_for_the_second() -> None:
    curve = Curve()
    curve.add("s", 10, 5.0, first=True)
    assert curve.cell("s").typical == 5.0
    curve.add("s", 10, 1.0)
    assert curve.cell("s").typical == 1.0
    assert curve.cell("s").count == 1


def test_what_is_bought_is_told_apart_from_what_is_tried() -> None:
    kind = Kind()
    charge(kind, "s", "jit", 0.2, 0.2, bought=True)
    charge(kind, "s", "jit", 0.1)
    assert (kind.outlay_seconds, kind.spent_seconds) == (0.2, 0.1)
    assert kind.curve("jit").first_seconds == [0.2]


def test_a_library_whose_threads_sleep_is_found_by_tries_in_a_row() -> None:
    ran: list[str] = [NUMPY]

    def cost(name: str, size: int) -> float:
        awake = ran[-1] == name
        ran.append(name)
        return 1.5e-4 if name == NUMPY else (8e-5 if awake else 5e-4)

    where, _, kind = simulate(cost, [1000] * 3000, TWO)
    assert where[-1] == "fast"
    assert kind.spent_seconds <= 0.2 * kind.busy_seconds


def test_calls_that_are_always_slow_are_not_tried_on_and_on() -> None:
    cost = linear({NUMPY: 1.5e-4, "fast": 5e-4}, {NUMPY: 0, "fast": 0})
    where, _, _ = simulate(cost, [1000] * 3000, TWO)
    assert where.count("fast") <= 12


def test_a_sample_that_met_sleeping_threads_gives_way() -> None:
    curve = Curve()
    curve.add("s", 10, 5e-4)
    assert curve.cell("s").warming
    curve.add("s", 10, 1e-4)
    assert list(curve.cell("s").seconds) == [1e-4]
    for _ in range(5):
        curve.add("s", 10, 1e-4)
    assert not curve.cell("s").warming
    curve.cell("s").row.clear()  # it ran elsewhere meanwhile
    curve.add("s", 10, 5e-4)
    assert set(curve.cell("s").seconds) == {1e-4}
    curve.add("s", 10, 5e-4)  # no sleep: it is slower now
    assert 5e-4 in curve.cell("s").seconds


def test_long_calls_keep_every_sample() -> None:
    curve = Curve()
    for seconds in (0.5, 0.1, 0.5):
        curve.add("s", 10, seconds)
    assert list(curve.cell("s").seconds) == [0.5, 0.1, 0.5]


def test_times_with_two_peaks_are_known_less_well() -> None:
    steady, torn = Curve(), Curve()
    for turn in range(16):
        steady.add("s", 10, 0.1)
        torn.add("s", 10, 0.04 if turn % 2 else 0.24)
    assert torn.cell("s").spread > 3 * steady.cell("s").spread


def test_other_functions_tell_what_is_hopeless() -> None:
    peers = Peers()
    slow = {NUMPY: 1e-2, "fast": 0.3}
    simulate(lambda name, _: slow[name], [10**6] * 500, TWO, kind=_member(peers, 1))
    simulate(lambda name, _: slow[name], [10**6] * 500, TWO, kind=_member(peers, 2))
    told, _, _ = simulate(lambda name, _: slow[name], [10**6] * 40, TWO, kind=_member(peers, 3))
    _, alone, _ = simulate(lambda name, _: slow[name], [10**6] * 40, TWO)
    assert set(told) == {NUMPY}
    assert alone > 0


def _member(peers: Peers, owner: int) -> Kind:
    return Kind(peer=Peer(peers, "heavy", owner))


def test_peers_are_asked_by_class_first_and_never_themselves() -> None:
    peers = Peers()
    for owner in (1, 2):
        peers.tell("heavy", "fast", 1000, 4.0, owner)
        peers.tell("fft", "fast", 1000, 0.25, owner)
    same, other = peers.guess("heavy", "fast", 1000, 3), peers.guess("sort", "fast", 1000, 3)
    assert same is not None
    assert same[0] == pytest.approx(4.0)
    assert other is not None
    assert other[1] > same[1]
    assert peers.guess("heavy", "fast", 10**9, 3) is None
    assert peers.guess("heavy", "jit", 1000, 3) is None
    mine = peers.guess("heavy", "fast", 1000, 1)
    assert mine is None or mine[1] > same[1]


def test_among_ever_new_sizes_a_call_that_something_held_up_is_soon_forgotten() -> None:
    """Only the first call was made on NumPy, at a small size, and took five times its time."""
    sizes = [688] + [int(n) for n in np.random.default_rng(0).permutation(4000) + 1000]

    def cost(name: str, size: int) -> float:
        if name == "fast":
            return 9e-5
        return 7e-5 if size == sizes[0] else 1.2e-5 + size * 2e-9

    kind = Kind()
    kind.curve("fast").verified = True
    kind.curve("fast").add(3000, 3000, 9e-5)
    where, _, _ = simulate(cost, sizes, TWO, kind=kind)
    assert where.count("fast") <= FEW_SIGNATURES + 4
    assert where[-1000:].count("fast") == 0


def test_the_only_call_of_a_size_counts_by_the_sizes_near_it() -> None:
    curve = Curve()
    for size, seconds in ((1000, 1e-5), (1100, 9e-5), (1200, 1.2e-5), (5000, 4e-5), (20000, 3e-5)):
        curve.add(size, size, seconds)
    assert curve.neighbours(1100)[0] == (1100, 1.2e-5)
    assert curve.neighbours(5000)[0] == (5000, 4e-5)  # no size is near
    curve.add(1100, 1100, 9e-5)
    assert curve.neighbours(1100)[0] == (1100, 9e-5)

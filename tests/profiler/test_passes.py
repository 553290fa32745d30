"""Own times, parts of lanes and call paths, of profiles made by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuforge.profiler.breakdown import breakdown, own_ns, total_ns
from gpuforge.profiler.model import DEVICE, HOST, TRANSFER, WAIT, Profile
from gpuforge.profiler.paths import paths
from tests.profiler.made import MS, Making


def example() -> Profile:
    making = Making()
    step = making.span("step", 0, 10 * MS)
    call = making.span("solve", 1 * MS, 8 * MS, inside=step, label="overhead")
    making.span("put", 1 * MS, 3 * MS, inside=call, label="transfer", nbytes=1000)
    making.span("run", 4 * MS, 4 * MS, inside=call, label="wait")
    device = making.lane("torch:cuda:0 compute", "device")
    making.span("kernel", 4 * MS, 3 * MS, inside=call, lane=device, label="device")
    making.span("step", 10 * MS, 5 * MS, error="ValueError")
    return making.profile


def test_own_time_leaves_out_what_is_inside_on_the_same_lane() -> None:
    assert list(own_ns(example())) == [t * MS for t in (2, 1, 3, 4, 3, 5)]


def test_the_parts_of_a_thread_add_up_to_its_wall_time() -> None:
    thread, device = breakdown(example())
    assert thread.wall_ns == 15 * MS == sum(thread.label_ns) + thread.unexplained_ns
    assert thread.label_ns[HOST] == 7 * MS
    assert (thread.label_ns[TRANSFER], thread.label_ns[WAIT]) == (3 * MS, 4 * MS)
    assert thread.bytes == 1000
    assert device.label_ns[DEVICE] == 3 * MS
    assert total_ns([thread, device])[DEVICE] == 3 * MS


def test_what_no_span_covers_is_told() -> None:
    making = Making()
    making.span("a", 0, MS)
    making.span("b", 3 * MS, MS)
    (thread,) = breakdown(making.profile)
    assert thread.unexplained_ns == 2 * MS


def test_paths_take_spans_of_one_name_together() -> None:
    root = paths(example())
    step = root.children["step", "thread"]
    assert (step.count, step.total_ns, step.own_ns, step.errors) == (2, 15 * MS, 7 * MS, 1)
    assert step.label_ns[TRANSFER] == 3 * MS
    assert step.own_label_ns[TRANSFER] == 0
    put = step.children["solve", "thread"].children["put", "thread"]
    assert put.names == ("step", "solve", "put")
    assert root.bytes == 1000
    assert [path.name for path in root] == ["step", "solve", "put", "run", "kernel"]


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=50), st.data())
def test_labels_of_all_paths_are_the_own_times(durations: list[int], data: st.DataObject) -> None:
    making = Making()
    for place, duration in enumerate(durations):
        inside = data.draw(st.integers(-1, place - 1))
        making.span(f"s{place % 7}", place, duration, inside=inside)
    assert sum(paths(making.profile).label_ns) == sum(own_ns(making.profile))

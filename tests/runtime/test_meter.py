"""The memory meter, against byte counts worked by hand."""

import threading

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from lowtide import LowtideError, MemoryTimeline, measure_peak
from lowtide.runtime.meter import DeviceNotMeasurableError, ProfilerBusyError, _AllocationEvent, _changes_since_start


def test_counts_overlapping_allocations():
    def run() -> torch.Tensor:
        first = torch.empty(1000)  # 4000 bytes live
        second = torch.empty(500, dtype=torch.float64)  # 8000
        del first  # 4000
        third = torch.empty(1500)  # 10000
        del second, third  # 0
        return torch.empty(25)  # 100

    measured = measure_peak(run)
    assert measured.peak_bytes == 10_000
    assert measured.left_bytes == 100
    assert measured.allocations == 4
    assert measured.timeline == MemoryTimeline((4000, 8000, 4000, 10_000, 6000, 0, 100))
    assert measured.reserved_peak_bytes is None
    assert measured.device == "cpu"


@pytest.mark.parametrize("seen_before", [False, True])
def test_memory_from_before_the_start_does_not_count(seen_before: bool):
    held: list[torch.Tensor] = []
    if seen_before:  # by an earlier measurement: then the profiler knows the block and reports its free
        measure_peak(lambda: held.append(torch.empty(1000)))
    else:
        held.append(torch.empty(1000))

    def run() -> None:
        held.clear()
        mine = torch.empty(600)  # 2400 bytes
        del mine

    measured = measure_peak(run)
    assert measured.timeline == MemoryTimeline((2400, 0))
    assert measured.peak_bytes == 2400
    assert measured.left_bytes == 0


def test_nothing_allocated_is_zero():
    measured = measure_peak(lambda: None)
    assert (measured.peak_bytes, measured.left_bytes, measured.allocations) == (0, 0, 0)


def test_gradients_are_counted():
    weight = torch.ones(256, requires_grad=True)  # the caller's

    def run() -> None:
        y = weight + weight  # 1024 bytes
        y.backward(torch.ones_like(y))  # tangent 1024, gradient 1024

    measured = measure_peak(run)
    assert measured.peak_bytes == 3072
    assert measured.left_bytes == 1024
    assert weight.grad is not None


def test_two_runs_measure_the_same():
    x = torch.randn(64, 64)

    def run() -> torch.Tensor:
        return torch.softmax(x @ x, dim=-1).sum()

    first, second = measure_peak(run), measure_peak(run)
    assert first == second
    # The softmax is made while the product is still held by the expression: two times 64 * 64 * 4 bytes.
    assert first.peak_bytes == 2 * 64 * 64 * 4


def test_an_active_profiler_is_a_four_part_error():
    with profile(activities=[ProfilerActivity.CPU]), pytest.raises(ProfilerBusyError) as caught:
        measure_peak(lambda: None)
    assert isinstance(caught.value, LowtideError)
    for part in ("cannot measure", "Found:", "Where:", "Try:"):
        assert part in str(caught.value)
    assert measure_peak(lambda: torch.empty(10)).peak_bytes == 40  # the next call works


def test_an_exception_leaves_the_meter_usable():
    def fail() -> None:
        raise KeyError("from the measured callable")

    with pytest.raises(KeyError, match="from the measured callable"):
        measure_peak(fail)
    assert measure_peak(lambda: torch.empty(10)).peak_bytes == 40


def test_another_thread_may_measure_at_the_same_time_as_this_one_works():
    """Events of a thread that is not measured are not in the sum."""
    found: list[int] = []
    worker = threading.Thread(target=lambda: found.append(measure_peak(lambda: torch.empty(100)).peak_bytes))
    worker.start()
    worker.join()
    assert found == [400]


def test_an_unknown_device_is_a_four_part_error():
    with pytest.raises(DeviceNotMeasurableError, match="device type 'meta'") as caught:
        measure_peak(lambda: None, device="meta")
    assert caught.value.device == "meta"


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_cuda_without_a_device_is_a_four_part_error():
    with pytest.raises(DeviceNotMeasurableError, match="is_available"):
        measure_peak(lambda: None, device="cuda:0")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_counts_allocated_and_reserved_bytes():
    def run() -> torch.Tensor:
        first = torch.empty(1024, device="cuda")  # 4096 bytes, a multiple of the allocator's 512
        second = torch.empty(2048, device="cuda")  # 12288 together
        del first, second
        return torch.empty(128, device="cuda")  # 512

    measured = measure_peak(run, device="cuda")
    assert measured.peak_bytes == 12_288
    assert measured.left_bytes == 512
    assert measured.allocations == 3
    assert measured.reserved_peak_bytes is not None


def test_events_of_one_nanosecond_keep_their_recorded_order():
    events = [_event(7, 1, 100), _event(7, 1, -100), _event(7, 2, 80), _event(3, 9, 10), _event(7, 2, -80)]
    assert _changes_since_start(events) == [10, 100, -100, 80, -80]


def test_an_address_used_again_counts_again():
    events = [_event(1, 5, 100), _event(2, 5, -100), _event(3, 5, 60), _event(4, 5, -60)]
    assert _changes_since_start(events) == [100, -100, 60, -60]


def test_a_free_of_an_unknown_address_is_left_out():
    assert _changes_since_start([_event(1, 5, -100), _event(2, 6, 30)]) == [30]


def _event(at_ns: int, address: int, size: int) -> _AllocationEvent:
    return _AllocationEvent(at_ns, address, size)

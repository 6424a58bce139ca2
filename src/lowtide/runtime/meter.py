"""Exact measurement of tensor memory while a callable runs, in bytes above what was live at its start.

CPU: torch keeps no statistics for its CPU allocator, but `torch.profiler` records every allocation and
free with its address and signed byte count. The running sum over the memory allocated since the start is
the memory profile, and its highest value the peak. A free of memory from before the start is left out,
always: the profiler reports it only if some earlier profile happened to see the allocation.
CUDA: the caching allocator's own statistics are read, allocated and reserved bytes apart. They know no
addresses, so there a free of memory from before the start lowers the count.

What is not seen: memory that does not come from torch's allocators (numpy, oneDNN and MKL internals,
memory-mapped files), and on CPU the allocations of Python threads that `fn` starts itself, because torch
carries its profiler to its own worker and autograd threads only.
"""

import gc
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch._C._autograd import _profiler_enabled
from torch._C._profiler import _ExtraFields_Allocation, _ProfilerEvent
from torch.profiler import ProfilerActivity, profile

from lowtide.errors import LowtideError


class ProfilerBusyError(LowtideError):
    """A profiler is already running, so a second one could not see the allocations."""

    def __init__(self) -> None:
        super().__init__(
            "cannot measure CPU memory while another profiler is active",
            found="torch.autograd reports a running profiler on this thread",
            where="lowtide.measure_peak(..., device='cpu')",
            fix="leave the torch.profiler (or another measure_peak) block first; measurements do not nest",
        )


class DeviceNotMeasurableError(LowtideError):
    """The device named has no exact meter here."""

    def __init__(self, device: str, reason: str) -> None:
        self.device = device
        super().__init__(
            f"cannot measure memory on device {device!r}",
            found=reason,
            where="lowtide.measure_peak(..., device=...)",
            fix="pass device='cpu', or device='cuda' on a machine with a CUDA device",
        )


@dataclass(frozen=True, slots=True)
class MemoryTimeline:
    """Bytes live after each allocation event, relative to the start of the measurement.

    Attributes:
        totals: Running totals in bytes, one per event in the order it happened.
    """

    totals: tuple[int, ...]

    @classmethod
    def from_changes(cls, changes: Iterable[int]) -> "MemoryTimeline":
        """Add up signed changes in bytes (positive: allocated; negative: freed).

        Example:
            >>> MemoryTimeline.from_changes([400, 800, -400, 100]).totals
            (400, 1200, 800, 900)
        """
        return cls(tuple(accumulate(changes)))

    @property
    def peak_bytes(self) -> int:
        """Highest total, in bytes, and never below 0: the start itself counts."""
        return max(0, *self.totals) if self.totals else 0

    @property
    def left_bytes(self) -> int:
        """Total after the last event, in bytes."""
        return self.totals[-1] if self.totals else 0


@dataclass(frozen=True, slots=True)
class MeasuredPeak:
    """What one run of a callable did to memory. All counts are bytes above the start; exact.

    Attributes:
        peak_bytes: Highest number of bytes allocated at any one time.
        left_bytes: Bytes still allocated when the callable returned, its result included.
        allocations: How many allocations were made.
        device: The device that was measured.
        timeline: Running totals over the allocation events; None on CUDA, whose statistics keep no history.
        reserved_peak_bytes: Highest number of bytes that the caching allocator held from the device, above
            what it held at the start; None on CPU, where nothing is cached.
    """

    peak_bytes: int
    left_bytes: int
    allocations: int
    device: str
    timeline: MemoryTimeline | None = None
    reserved_peak_bytes: int | None = None


def measure_peak(fn: Callable[[], object], *, device: str | torch.device = "cpu") -> MeasuredPeak:
    """Run `fn()` once and measure the tensor memory it takes, in bytes above the start.

    Garbage is collected before the start. What `fn` returns is kept until the measurement ends, so it
    counts as left. Compilation that happens inside `fn` is measured with it: warm up first.

    Args:
        fn: Called once without arguments.
        device: "cpu", or a CUDA device. On CUDA the allocator's peak statistics are reset.

    Returns:
        The peak and what was left, in bytes.

    Raises:
        ProfilerBusyError: If a torch profiler is already active on this thread (CPU).
        DeviceNotMeasurableError: If there is no meter for `device`.

    Guarantee: exact for what torch's allocator of that device hands out on the threads that torch itself runs.
    Cost: one run of `fn`; on CPU slower by the profiler's overhead, so never time it.
    """
    target = torch.device(device)
    if target.type == "cpu":
        return _measure_cpu(fn)
    if target.type == "cuda":
        return _measure_cuda(fn, target)
    raise DeviceNotMeasurableError(str(target), f"device type {target.type!r}, known are 'cpu' and 'cuda'")


def _measure_cpu(fn: Callable[[], object]) -> MeasuredPeak:
    if _profiler_enabled():
        raise ProfilerBusyError
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recording:
        result = fn()
    profiler = recording.profiler
    assert profiler is not None, "bug: the profiler left no recording"
    recorded = profiler.kineto_results
    assert recorded is not None, "bug: the profiler left no recording"
    changes = _changes_since_start(_cpu_events(recorded.experimental_event_tree()))
    del result
    timeline = MemoryTimeline.from_changes(changes)
    return MeasuredPeak(
        peak_bytes=timeline.peak_bytes,
        left_bytes=timeline.left_bytes,
        allocations=sum(change > 0 for change in changes),
        device="cpu",
        timeline=timeline,
    )


@dataclass(frozen=True, slots=True)
class _AllocationEvent:
    """One allocation (positive `size`, in bytes) or free (negative) of the block at `address`."""

    at_ns: int
    address: int
    size: int


def _cpu_events(roots: Iterable[_ProfilerEvent]) -> Iterator[_AllocationEvent]:
    """Walk the recorded events, parents before children, and pick the CPU allocations and frees."""
    pending = list(roots)[::-1]
    while pending:
        event = pending.pop()
        pending.extend(reversed(event.children))
        fields = event.extra_fields
        if isinstance(fields, _ExtraFields_Allocation) and fields.device.type == "cpu":
            yield _AllocationEvent(event.start_time_ns, fields.ptr, fields.alloc_size)


def _changes_since_start(events: Iterable[_AllocationEvent]) -> list[int]:
    """Order the events by time and leave out the frees of memory from before the start.

    Several events can carry the same nanosecond (a free followed by an allocation); the sort is stable,
    so such events keep the order in which they were recorded. An address may be used again after its free.
    """
    live: set[int] = set()
    changes: list[int] = []
    for event in sorted(events, key=lambda event: event.at_ns):
        if event.size > 0:
            live.add(event.address)
            changes.append(event.size)
        elif event.address in live:
            live.remove(event.address)
            changes.append(event.size)
    return changes


def _measure_cuda(fn: Callable[[], object], device: torch.device) -> MeasuredPeak:
    if not torch.cuda.is_available():
        raise DeviceNotMeasurableError(str(device), "torch.cuda.is_available() is False")
    gc.collect()
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    allocated = torch.cuda.memory_allocated(device)
    reserved = torch.cuda.memory_reserved(device)
    made = _cuda_allocations(device)
    result = fn()
    torch.cuda.synchronize(device)
    measured = MeasuredPeak(
        peak_bytes=torch.cuda.max_memory_allocated(device) - allocated,
        left_bytes=torch.cuda.memory_allocated(device) - allocated,
        allocations=_cuda_allocations(device) - made,
        device=str(device),
        reserved_peak_bytes=torch.cuda.max_memory_reserved(device) - reserved,
    )
    del result
    return measured


def _cuda_allocations(device: torch.device) -> int:
    """Count the allocations made on `device` since the process started."""
    return torch.cuda.memory_stats(device).get("allocation.all.allocated", 0)

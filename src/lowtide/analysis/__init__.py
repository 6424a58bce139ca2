"""Read-only facts about programs: what must stay in order, what is live when, how many bytes, at what cost."""

from lowtide.analysis.allocator import CUDA_BLOCK_BYTES, allocated_footprints_at, allocated_peak_at
from lowtide.analysis.cost import CostSummary, sum_exprs, total_cost
from lowtide.analysis.dependence import Dependence, DependenceGraph, DependenceKind, dependences, is_valid_order
from lowtide.analysis.liveness import LiveRange, live_ranges
from lowtide.analysis.order import OrderError, resolve_order
from lowtide.analysis.peak_expression import peak_of_rows
from lowtide.analysis.peak_table import PeakTable
from lowtide.analysis.profile import (
    FootprintOverflowError,
    LiveBytes,
    MemoryProfile,
    PeakFact,
    memory_profile,
    peak,
)

__all__ = [
    "CUDA_BLOCK_BYTES",
    "CostSummary",
    "Dependence",
    "DependenceGraph",
    "DependenceKind",
    "FootprintOverflowError",
    "LiveBytes",
    "LiveRange",
    "MemoryProfile",
    "OrderError",
    "PeakFact",
    "PeakTable",
    "allocated_footprints_at",
    "allocated_peak_at",
    "dependences",
    "is_valid_order",
    "live_ranges",
    "memory_profile",
    "peak",
    "peak_of_rows",
    "resolve_order",
    "sum_exprs",
    "total_cost",
]

"""Every way of making an order, by name: those whose order suits any size, and those that look at exact sizes.

Each gives a legal order, the same one each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lowtide.schedule.delay import delayed_order
from lowtide.schedule.list_order import sized_order, symbolic_order, topology_order
from lowtide.schedule.look_ahead import look_ahead_order
from lowtide.schedule.numbers import SizedProblem
from lowtide.schedule.problem import Order, OrderProblem
from lowtide.schedule.walks import depth_first_order, reverse_post_order

ANY_SIZE: Mapping[str, Callable[[OrderProblem], Order]] = {
    "program": lambda problem: problem.program_order,
    "paper": symbolic_order,
    "symbolic": lambda problem: symbolic_order(problem, topology=False),
    "topology": topology_order,
    "depth first": depth_first_order,
    "reverse post-order": reverse_post_order,
}
"""By the problem alone; "paper" is BladeDISC++'s: symbolic impact, and topology where impacts cannot be compared."""

EXACT_SIZES: Mapping[str, Callable[[SizedProblem], Order]] = {
    "impact": sized_order,
    "look-ahead": look_ahead_order,
}
"""By the problem at one valuation."""


def exact_orders(sized: SizedProblem) -> list[Order]:
    """Return the orders of all schedulers that look at exact sizes, and each of them and the program's own delayed."""
    found = [sized.problem.program_order, *(scheduler(sized) for scheduler in EXACT_SIZES.values())]
    return [*found[1:], *(delayed_order(sized, order) for order in found)]


def best_of(sized: SizedProblem) -> Order:
    """Return the order of least peak at a valuation among those of all schedulers; of equals the first.

    Cost: that of all of them.
    """
    orders = [*(scheduler(sized.problem) for scheduler in ANY_SIZE.values()), *exact_orders(sized)]
    return min(orders, key=sized.peak)

"""Windows: the best order of all where no level has too many ideals, and only one below the limit."""

from hypothesis import given, settings

from lowtide.ir import Program
from lowtide.schedule.ideals import best_window
from lowtide.schedule.numbers import at_valuation
from lowtide.schedule.problem import order_problem
from tests.random_programs import programs
from tests.schedule.orders import legal_orders


@given(programs(4))
@settings(max_examples=60)
def test_a_window_over_the_forward_has_the_least_peak_of_all_legal_orders(program: Program) -> None:
    sized = at_valuation(order_problem(program), {"b": 3, "s": 2, "kept": 1})
    problem = sized.problem
    forward = list(range(problem.boundary))
    if not forward:
        return
    live = sum(sized.sizes[b] for b in problem.at_forward)
    rest = tuple(range(problem.boundary, len(problem.predecessors)))

    def peak(order: tuple[int, ...]) -> int:
        return max(sized.footprints((*order, *rest))[: problem.boundary])

    best = min(peak(order[: problem.boundary]) for order in legal_orders(problem))
    found = best_window(sized, forward, problem.touchers, live, below=best + 1, width=10_000)
    assert found is not None
    assert peak(found) == best
    assert best_window(sized, forward, problem.touchers, live, below=best, width=10_000) is None

"""How well and how fast sizes are compared.

Three measurements. Random polynomials of four terms in two or three variables, each pair compared once: the time of an
uncached comparison. Real programs, one per graph of each model of `benchmarks.models`: the share of each rule and of
UNKNOWN. Generated sizes, of more kinds than the models have: the same shares. Every verdict on the last two is then
checked at sampled valuations that its scope admits.
"""

import time
from collections.abc import Sequence
from random import Random
from statistics import median, quantiles
from typing import Any

import numpy as np

from benchmarks.generated_sizes import generated_families
from benchmarks.models import CASES, LLAMA
from benchmarks.pairs import Family
from benchmarks.program_sizes import program_families
from benchmarks.reporting import Report
from lowtide.symbolic import CompareTally, Comparison, Expr, Scope, Verdict, compare, compile_batch, const, dim

SEED = 20241216
COEFFICIENTS = (1, 2, 4, 12, 768, 4096, 11008, 32000)
RANDOM_PAIRS = 4000
# Pairs are made in portions, so that those compared are neither all in the cache nor all out of it.
PORTION = 50
SAMPLED_CHECKS = 1_000_000
PAIRS_OF_A_PROGRAM = 2000
GENERATED_PAIRS = 6000


def run(quick: bool) -> Report:
    """Measure comparisons.

    Args:
        quick: One model, fewer pairs and fewer sampled checks.

    Returns:
        One row per source, rule and verdict. The summary holds `comparisons` and `unknown_share` of the real programs,
        `generated_comparisons` and `generated_unknown_share`, `wrong_verdicts` among `sampled_checks` of both, and
        `compare_us` (median, microseconds) with its 90th percentile.
    """
    microseconds = time_random_comparisons(RANDOM_PAIRS // 4 if quick else RANDOM_PAIRS)
    real = program_families([LLAMA] if quick else CASES, PAIRS_OF_A_PROGRAM // 4 if quick else PAIRS_OF_A_PROGRAM)
    generated = generated_families(GENERATED_PAIRS // 4 if quick else GENERATED_PAIRS)
    checks_of_each = (SAMPLED_CHECKS // 10 if quick else SAMPLED_CHECKS) // (len(real) + len(generated))
    rows: list[dict[str, Any]] = []
    tallies: list[CompareTally] = []
    wrong = checks = 0
    seconds = 0.0
    for source, families in (("programs", real), ("generated", generated)):
        tally = CompareTally()
        for family in families:
            started = time.perf_counter()
            answers = [compare(left, right, family.scope, tally=tally) for left, right in family.pairs]
            seconds += time.perf_counter() - started
            bad, made = count_wrong(family, answers, checks_of_each)
            wrong += bad
            checks += made
        tallies.append(tally)
        rows += rule_rows(source, tally)
    in_programs, in_generated = tallies
    return Report(
        title="Comparison of symbolic sizes",
        rows=rows,
        summary={
            "comparisons": in_programs.comparisons,
            "unknown_share": in_programs.unknown_share,
            "generated_comparisons": in_generated.comparisons,
            "generated_unknown_share": in_generated.unknown_share,
            "wrong_verdicts": wrong,
            "sampled_checks": checks,
            "compare_us": median(microseconds),
            "compare_us_p90": quantiles(microseconds, n=10)[-1],
            "program_compare_us_mean": seconds * 1e6 / (in_programs.comparisons + in_generated.comparisons),
        },
        notes=[
            f"compare_us: {len(microseconds)} pairs of random four-term polynomials, each compared once",
            f"programs: {', '.join(dict.fromkeys(family.name for family in real))}; training, distinct expressions",
            f"wrong_verdicts: verdicts contradicted in {checks} checks at sampled valuations",
        ],
    )


def rule_rows(source: str, tally: CompareTally) -> list[dict[str, Any]]:
    """Return one row per rule and verdict with its count and share, the most frequent first."""
    total = tally.comparisons
    return [
        {"source": source, "rule": r.name, "verdict": v.name, "count": count, "share": round(count / total, 4)}
        for r, v, count in tally.rows()
    ]


def count_wrong(family: Family, answers: Sequence[Comparison], checks: int) -> tuple[int, int]:
    """Check verdicts at sampled valuations and witnesses at their own.

    Returns:
        How many checks contradicted a verdict, and how many were made (at least `checks`).
    """
    rng = Random(SEED)
    pairs, scope = family.pairs, family.scope
    differences = compile_batch([left - right for left, right in pairs])
    at_most = np.array([answer.is_at_most for answer in answers])
    at_least = np.array([answer.is_at_least for answer in answers])
    wrong = made = 0
    while made < checks:
        values = differences.at(scope.sample(rng))
        wrong += int(np.count_nonzero((values > 0) & at_most) + np.count_nonzero((values < 0) & at_least))
        made += len(pairs)
    for index, answer in enumerate(answers):
        if answer.verdict is Verdict.SHAPE_DEPENDENT:
            made += 2
            assert answer.less is not None, "bug: a verdict without its witnesses"
            assert answer.greater is not None, "bug: a verdict without its witnesses"
            batch = compile_batch([pairs[index][0] - pairs[index][1]])
            wrong += not (scope.admits(answer.less) and batch.integers_at(answer.less)[0] < 0)
            wrong += not (scope.admits(answer.greater) and batch.integers_at(answer.greater)[0] > 0)
    return wrong, made


def time_random_comparisons(count: int) -> list[float]:
    """Return the microseconds of each of `count` comparisons of random pairs, none compared before."""
    rng = Random(SEED)
    variables = [dim("batch"), dim("seq"), dim("chunk")]
    scope = Scope({"batch": (1, 512), "seq": (1, 8192), "chunk": (1, None)})
    microseconds: list[float] = []
    for _ in range(count // PORTION):
        chosen = [variables[: rng.choice((2, 3))] for _ in range(PORTION)]
        pairs = [(_random_polynomial(rng, among), _random_polynomial(rng, among)) for among in chosen]
        for left, right in pairs:
            started = time.perf_counter_ns()
            compare(left, right, scope)
            microseconds.append((time.perf_counter_ns() - started) / 1000)
    return microseconds


def _random_polynomial(rng: Random, variables: Sequence[Expr]) -> Expr:
    """Return a polynomial of four terms of degree at most 3."""
    total = const(0)
    while len(total.terms) < 4:
        term = const(rng.choice(COEFFICIENTS) * rng.choice((1, 1, 1, -1)))
        for _ in range(rng.randint(0, 3)):
            term = term * rng.choice(variables)
        total = total + term
    return total

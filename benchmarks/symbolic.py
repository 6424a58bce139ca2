"""How well and how fast sizes are compared.

Two measurements. Random: polynomials of four terms in two or three variables, each pair compared once, for the time of
an uncached comparison. Programs: sizes, impacts, footprints and peaks as training programs have them (products over
batch and sequence, their squares, padded and halved lengths, sizes known at run time), for the share of each rule and
of UNKNOWN; every verdict is then checked at sampled valuations that its scope admits.

`count_verdicts` takes any pairs, so sizes collected from real programs are measured in the same way.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from random import Random
from statistics import median, quantiles
from typing import Any, TypeAlias

import numpy as np

from benchmarks.reporting import Report
from lowtide.symbolic import (
    AtMost,
    CompareTally,
    Comparison,
    Divisible,
    Equal,
    Expr,
    Scope,
    Verdict,
    ceil_div,
    compare,
    compile_batch,
    const,
    dim,
    maximum,
)

Pair: TypeAlias = tuple[Expr, Expr]

SEED = 20241216
COEFFICIENTS = (1, 2, 4, 12, 768, 4096, 11008, 32000)
RANDOM_PAIRS = 4000
# Pairs are made in portions, so that those compared are neither all in the cache nor all out of it.
PORTION = 50
SAMPLED_CHECKS = 1_000_000
PROGRAM_PAIRS = 6000


def run(quick: bool, statements: Callable[[bool], float] | None = None) -> Report:
    """Measure comparisons.

    Args:
        quick: Fewer pairs and fewer sampled checks.
        statements: Measures the seconds for a program of 10,000 statements, where the caller wants that figure in the
            summary; it is given `quick`.

    Returns:
        One row per rule and verdict, and the figures `comparisons`, `unknown_share`, `wrong_verdicts`,
        `sampled_checks`, `compare_us` (median, microseconds) and its 90th percentile.
    """
    microseconds = time_random_comparisons(RANDOM_PAIRS // 4 if quick else RANDOM_PAIRS)
    tally = CompareTally()
    wrong = checks = 0
    wanted = SAMPLED_CHECKS // 10 if quick else SAMPLED_CHECKS
    families = program_families(PROGRAM_PAIRS // 4 if quick else PROGRAM_PAIRS)
    started = time.perf_counter()
    answers = [(scope, pairs, count_verdicts(pairs, scope, tally)) for scope, pairs in families]
    seconds = time.perf_counter() - started
    for scope, pairs, found in answers:
        bad, made = count_wrong(pairs, found, scope, wanted // len(families))
        wrong += bad
        checks += made
    summary: dict[str, Any] = {
        "comparisons": tally.comparisons,
        "unknown_share": tally.unknown_share,
        "wrong_verdicts": wrong,
        "sampled_checks": checks,
        "compare_us": median(microseconds),
        "compare_us_p90": quantiles(microseconds, n=10)[-1],
        "program_compare_us_mean": seconds * 1e6 / tally.comparisons,
    }
    if statements is not None:
        summary["statements_10000_seconds"] = statements(quick)
    return Report(
        title="Comparison of symbolic sizes",
        rows=rule_rows(tally),
        summary=summary,
        notes=[
            f"compare_us: {len(microseconds)} pairs of random four-term polynomials, each compared once",
            f"wrong_verdicts: verdicts contradicted in {checks} checks at sampled valuations",
        ],
    )


def rule_rows(tally: CompareTally) -> list[dict[str, Any]]:
    """Return one row per rule and verdict with its count and share, the most frequent first."""
    return [
        {"rule": rule.name, "verdict": verdict.name, "count": count, "share": round(count / tally.comparisons, 4)}
        for rule, verdict, count in tally.rows()
    ]


def count_verdicts(pairs: Iterable[Pair], scope: Scope, tally: CompareTally) -> list[Comparison]:
    """Compare every pair and count the answers; returns the answers in order."""
    return [compare(left, right, scope, tally=tally) for left, right in pairs]


def count_wrong(pairs: Sequence[Pair], answers: Sequence[Comparison], scope: Scope, checks: int) -> tuple[int, int]:
    """Check verdicts at sampled valuations and witnesses at their own.

    Returns:
        How many checks contradicted a verdict, and how many were made (at least `checks`).
    """
    rng = Random(SEED)
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


def program_families(count: int) -> list[tuple[Scope, list[Pair]]]:
    """Return scopes of training programs, each with pairs that a scheduler would compare."""
    batch, seq, tokens, routed = dim("batch"), dim("seq"), dim("tokens"), dim("routed")
    plain = Scope({"batch": (1, 1024), "seq": (2, 131072)})
    reshaped = Scope({"batch": (1, 1024), "seq": (2, 8192), "tokens": (2, 1024 * 8192)}, [Equal(tokens, batch * seq)])
    padded = Scope({"batch": (1, 64), "seq": (8, 4096)}, [Divisible(seq, 8)])
    mixture = Scope(
        {"batch": (1, 64), "seq": (2, 4096), "tokens": (2, 64 * 4096), "routed": (0, 64 * 4096)},
        [Equal(tokens, batch * seq), AtMost(routed, tokens)],
    )
    images = Scope({"batch": (1, 256), "seq": (32, 1024)})
    layers = [seq, ceil_div(seq, 2), ceil_div(seq, 4), ceil_div(seq, 8)]
    sizes: list[tuple[Scope, list[Expr]]] = [
        (plain, _language_model_sizes(batch, seq, batch * seq)),
        (reshaped, _language_model_sizes(batch, seq, tokens)),
        (padded, [*_language_model_sizes(batch, seq, batch * seq), 4 * batch * (seq // 2), batch * ceil_div(seq, 64)]),
        (mixture, [*_language_model_sizes(batch, seq, tokens), *(4 * width * routed for width in (1, 512, 1792))]),
        (images, [4 * batch * 64 * 2**level * size * size for level, size in enumerate(layers)]),
    ]
    rng = Random(SEED)
    return [(scope, _program_pairs(rng, found, count // len(sizes))) for scope, found in sizes]


def _language_model_sizes(batch: Expr, seq: Expr, tokens: Expr) -> list[Expr]:
    """Return sizes in bytes of what a transformer allocates: activations, scores, logits, masks, halves, weights."""
    hidden, wide, heads, vocabulary = 512, 1792, 8, 32000
    return [
        4 * hidden * tokens,
        2 * hidden * tokens,
        4 * wide * tokens,
        4 * vocabulary * tokens,
        4 * tokens,
        8 * tokens,
        4 * heads * batch * seq * seq,
        batch * seq * seq,
        seq * seq,
        4 * hidden * batch * (seq // 2),
        4 * heads * batch * (ceil_div(seq, 32) * 32) * seq,
        4 * vocabulary * batch * (seq - 1),
        const(4 * hidden * wide),
        const(4 * hidden * vocabulary),
    ]


def _program_pairs(rng: Random, sizes: Sequence[Expr], count: int) -> list[Pair]:
    """Return pairs of sizes, of impacts (allocated minus freed), of footprints, and of peaks."""
    pairs: list[Pair] = []
    for number in range(count):
        kind = number % 8
        if kind < 2:
            pairs.append((rng.choice(sizes), rng.choice(sizes)))
        elif kind < 5:
            pairs.append((_impact(rng, sizes), _impact(rng, sizes)))
        elif kind < 7:
            pairs.append((_footprint(rng, sizes), _footprint(rng, sizes)))
        else:
            # Two orders that differ in one place: most footprints are shared.
            shared = [_footprint(rng, sizes) for _ in range(4)]
            peaks = [maximum(*shared, _footprint(rng, sizes), _footprint(rng, sizes)) for _ in range(2)]
            pairs.append((peaks[0], peaks[1]))
    return pairs


def _impact(rng: Random, sizes: Sequence[Expr]) -> Expr:
    freed = [rng.choice(sizes) for _ in range(rng.randint(0, 2))]
    return rng.choice(sizes) - sum(freed, const(0))


def _footprint(rng: Random, sizes: Sequence[Expr]) -> Expr:
    return sum((rng.choice(sizes) for _ in range(rng.randint(3, 6))), const(0))

"""Pairs of sizes like those of training programs, generated: more kinds of sizes than any one model has.

Products over batch and sequence, their squares, padded and halved lengths, sizes known at run time, images.
"""

from collections.abc import Sequence
from random import Random

from benchmarks.pairs import Family, Pair
from lowtide.symbolic import AtMost, Divisible, Equal, Expr, Scope, ceil_div, const, dim, maximum

_SEED = 20241216


def generated_families(count: int) -> list[Family]:
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
    rng = Random(_SEED)
    return [Family("generated", scope, _program_pairs(rng, found, count // len(sizes))) for scope, found in sizes]


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

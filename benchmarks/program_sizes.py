"""Pairs of sizes of real programs: what a scheduler compares in the programs that torch.compile made of the models.

Distinct expressions only, so that no share is made better by comparing the same again: sizes of buffers, impacts of
statements (bytes allocated minus bytes freed), footprints.
"""

from collections.abc import Sequence
from random import Random

import lowtide
from benchmarks.backends import LOWTIDE, make_column, reset_compiler
from benchmarks.models import Case
from benchmarks.pairs import Family, Pair
from benchmarks.steps import train_step
from lowtide.analysis import memory_profile
from lowtide.ir import Program
from lowtide.symbolic import Expr, const

_SEED = 20241216


def program_families(cases: Sequence[Case], count: int) -> list[Family]:
    """Compile each case for training at its first shape and pair the sizes of its programs.

    Args:
        cases: The models.
        count: Pairs of each program.
    """
    families: list[Family] = []
    for case in cases:
        reset_compiler()
        column = make_column(LOWTIDE, case.make_model())
        train_step(column.run, case.make(*case.first))
        for explained in lowtide.explain(column.run).programs:
            program = explained.program
            families.append(Family(case.name, program.scope, _pairs_of(program, Random(_SEED), count)))
    return families


def _pairs_of(program: Program, rng: Random, count: int) -> list[Pair]:
    kinds = [kind for kind in (_sizes(program), _impacts(program), _footprints(program)) if len(kind) > 1]
    pairs: list[Pair] = []
    for number in range(count):
        left, right = rng.sample(kinds[number % len(kinds)], 2)
        pairs.append((left, right))
    return pairs


def _sizes(program: Program) -> list[Expr]:
    return list(dict.fromkeys(buffer.size for buffer in program.buffers.values()))


def _footprints(program: Program) -> list[Expr]:
    return list(dict.fromkeys(memory_profile(program).footprints))


def _impacts(program: Program) -> list[Expr]:
    """Distinct impacts of the statements in program order."""
    changes = [const(0)] * len(program.statements)
    for name, live in memory_profile(program).ranges.items():
        if live.start < live.stop:
            size = program.buffers[name].size
            changes[live.start] += size
            changes[live.stop - 1] -= size
    return list(dict.fromkeys(changes))

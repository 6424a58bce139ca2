"""What the workspace formulas have to know about the machine that runs the program."""

from dataclasses import dataclass, field

import torch

from lowtide.symbolic import Expr, dim


@dataclass(frozen=True, slots=True)
class CpuMachine:
    """The machine parameters of CPU workspace formulas.

    Attributes:
        threads: Threads that torch may use inside one operator (`torch.get_num_threads()`).
        packs_reduced: Whether bfloat16 and float16 products go to oneDNN, which packs operands (processors with AVX-512
            or AMX). None when not known: formulas of these types are then unknown where packing would change them.
        onednn: Instruction set that oneDNN uses for float32 ("avx2"), or None when another or not known: workspaces of
            convolutions that oneDNN computes are then unknown.
        counts_workers: Count the small buffers that worker threads allocate in a parallel region. The torch profiler
            reports allocations of the calling thread only, so a prediction that is compared with it leaves them out.
    """

    threads: Expr = field(default_factory=lambda: dim("threads"))
    packs_reduced: bool | None = False
    onednn: str | None = "avx2"
    counts_workers: bool = False

    @classmethod
    def here(cls) -> "CpuMachine":
        """The processor that this process runs on, as far as formulas know it.

        The formulas hold for what oneDNN and ATen do with AVX2. On any other instruction set (AVX-512, AMX, ARM)
        whatever depends on it is unknown, and so is measured instead.
        """
        if torch.backends.cpu.get_cpu_capability() == "AVX2":
            return cls(packs_reduced=False, onednn="avx2")
        return cls(packs_reduced=None, onednn=None)

"""Run the demo: `python -m demo`, or `make demo`, which sets everything up first."""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

# Quiet torch's profiler before torch is loaded, here and in the columns' processes.
os.environ.setdefault("KINETO_LOG_LEVEL", "9")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from benchmarks.backends import EAGER, LOWTIDE, TORCH_COMPILE
from benchmarks.reporting import print_report, write_json
from demo.batches import make_batches, train_tokenizer
from demo.column import read_result, save_batches
from demo.corpus import read_samples
from demo.picture import draw_memory
from demo.settings import Settings
from demo.summary import summarize
from demo.turns import train_in_turn

COLUMNS = (EAGER, TORCH_COMPILE, LOWTIDE)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train the columns in turn, print the table, write JSON and the picture."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="folder for demo.json and memory.png")
    parser.add_argument("--steps", type=int, default=Settings().steps, help="batches that each column trains on")
    options = parser.parse_args(arguments)
    settings = Settings(steps=options.steps)

    start = time.perf_counter()
    print("Reading the functions of the standard library ...", flush=True)
    samples = read_samples(settings.samples)
    tokenizer = train_tokenizer(samples, settings.vocabulary)
    batches = make_batches(
        samples,
        tokenizer,
        batch=settings.batch,
        longest=settings.longest,
        count=settings.steps,
        seed=settings.seed,
    )
    lengths = sorted(batch.shape[1] for batch in batches)
    largest = max((batch.shape for batch in batches), key=lambda shape: shape[0] * shape[1])
    print(
        f"{len(samples):,} functions, {tokenizer.get_vocab_size():,} tokens in the vocabulary; {len(batches)} batches "
        f"of {settings.batch}, {len(set(lengths))} different lengths from {lengths[0]} to {lengths[-1]}.",
        flush=True,
    )

    with tempfile.TemporaryDirectory(prefix="lowtide-demo-") as name:
        folder = Path(name)
        save_batches(batches, folder)
        (folder / "settings.json").write_text(json.dumps(asdict(settings)), encoding="utf-8")
        print("Training the columns in turn; the first steps compile ...\n", flush=True)
        train_in_turn(COLUMNS, batches, folder)
        results = [read_result(folder, column) for column in COLUMNS]
        report = summarize(results, folder, largest)

    print()
    print_report(report)
    write_json(report, options.out / "demo.json")
    draw_memory(results, largest, options.out / "memory.png")
    seconds = time.perf_counter() - start
    print(f"\nWrote {options.out / 'demo.json'} and {options.out / 'memory.png'}; {seconds:.0f} s in all.")


if __name__ == "__main__":
    main()

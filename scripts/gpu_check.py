"""The parts of `scripts/gpu_check.sh`: each writes its rows as JSON after every row, so that a cut loses little.

python scripts/gpu_check.py {machine,accounting,parity,training} --device cuda --json FILE
python scripts/gpu_check.py table --folder FOLDER
"""

import argparse
import json
import statistics
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
PARTS = ("machine", "accounting", "parity", "training")


def main() -> None:
    """Run one part, or print the table of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=[*PARTS, "table"])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.part == "table":
        print_table(options.folder)
        return
    rows: list[Row] = []
    part: Callable[[str], Iterator[Row]] = globals()[options.part]
    for row in part(options.device):
        rows.append(row)
        print(json.dumps(row), flush=True)
        options.json.write_text(json.dumps(rows, indent=1))


def machine(device: str) -> Iterator[Row]:
    """What the check ran on."""
    import platform

    import torch
    import transformers

    try:
        import triton
    except ImportError:
        triton = None
    row: dict[str, Any] = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "triton": getattr(triton, "__version__", None),
        "transformers": transformers.__version__,
    }
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        row |= {"card": properties.name, "capability": f"{properties.major}.{properties.minor}"}
    yield row


# -- models ----------------------------------------------------------------------------------------------------


def make_case(name: str, device: str) -> tuple[Any, Callable[[int, int], dict[str, Any]]]:
    """Build a model, and a function that makes the inputs of a call for (batch, length)."""
    import torch

    from benchmarks.models import CONV_NET, LLAMA, llama_model

    torch.manual_seed(0)
    if name == "conv net":
        model, make = CONV_NET.make_model(), CONV_NET.make
    elif name == "llama bf16":
        model, make = llama_model(hidden=256, layers=2, heads=8).to(torch.bfloat16), LLAMA.make
    else:
        model, make = llama_model(hidden=256, layers=2, heads=8), LLAMA.make
    model = model.to(device)

    def inputs(batch: int, length: int) -> dict[str, Any]:
        made = make(batch, length)
        return {key: value.to(device) if isinstance(value, torch.Tensor) else value for key, value in made.items()}

    return model, inputs


def compiled_with(model: Any, backend: str, lowering: str) -> Any:
    """Compile a model; the lowering is asked for, as this version of torch may not be in the tested range."""
    import torch

    if backend == "inductor":
        return torch.compile(model, backend="inductor", dynamic=True)
    from lowtide.torch_backend import lowtide

    return torch.compile(model, backend=lowtide, dynamic=True, options={"lowering": lowering, "fallback": False})


def step(run: Any, inputs: Mapping[str, Any]) -> Any:
    """Forward and backward; returns the loss."""
    out = run(**inputs)
    loss = out if hasattr(out, "backward") else out.loss
    loss.backward()
    return loss.detach()


def drop_gradients(model: Any) -> None:
    """Free the gradients."""
    for parameter in model.parameters():
        parameter.grad = None


# -- accounting ------------------------------------------------------------------------------------------------


def accounting(device: str) -> Iterator[Row]:
    """Predicted peak against the bytes that torch's allocator was asked for, at shapes not seen at compile time."""
    for name, shapes in (
        ("llama", [(2, 64), (3, 37), (2, 191), (4, 512)]),
        ("conv net", [(2, 32), (3, 47), (5, 64)]),
        ("llama bf16", [(2, 64), (3, 128), (4, 512)]),
    ):
        for lowering in ("inductor", "aten"):
            yield from guarded(
                {"model": name, "lowering": lowering}, lambda n=name, s=shapes, w=lowering: account(n, s, w, device)
            )


def account(name: str, shapes: list[tuple[int, int]], lowering: str, device: str) -> Iterator[Row]:
    """One model, compiled at the first shape and measured at the others."""
    import torch

    import lowtide

    torch._dynamo.reset()
    model, make = make_case(name, device)
    run = compiled_with(model, "lowtide", lowering)
    step(run, make(*shapes[0]))
    drop_gradients(model)
    # A second shape first: torch may compile once more, and libraries take their workspace.
    step(run, make(*shapes[1]))
    drop_gradients(model)
    inputs = make(*shapes[1])
    with lowtide.record_step() as watched:
        step(run, inputs)
    drop_gradients(model)
    for shape in shapes[1:]:
        inputs = make(*shape)
        requested, allocated = measure(lambda i=inputs: step(run, i), device)
        drop_gradients(model)
        sizes = {dim: shape[0] if dim == "batch" else shape[1] for dim in named_dims(watched)}
        row = {"model": name, "lowering": lowering, "shape": list(shape), "measured": requested, "allocated": allocated}
        peak = watched.predict(sizes)
        row |= {"predicted": peak.bytes, "difference": peak.bytes - requested, "probed": len(peak.probed)}
        row["rounded"] = rounded_peak(watched, sizes)
        yield row


def named_dims(watched: Any) -> set[str]:
    """The named dimensions of every program of a step."""
    return {name for call in watched.calls for name in call.program.dim_names.values()}


def rounded_peak(watched: Any, sizes: Mapping[str, int]) -> int | None:
    """The peak in blocks of 512 bytes, for a step of one program; None for several."""
    from lowtide.analysis import allocated_peak_at, memory_profile

    programs = {id(call.program): call.program for call in watched.calls}
    if len(programs) != 1:
        return None
    (program,) = programs.values()
    devices = {buffer.device.partition(":")[0] for buffer in program.buffers.values()}
    device = "cuda" if "cuda" in devices else "cpu"
    return allocated_peak_at(memory_profile(program), watched.valuations(sizes)[0], device=device)


def measure(call: Callable[[], object], device: str) -> tuple[int, int]:
    """Bytes asked for and bytes in blocks, at the peak of a call, above its start."""
    import gc

    import torch

    if device != "cuda":
        import lowtide

        peak = lowtide.measure_peak(call).peak_bytes
        return peak, peak
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()  # no larger cached block is handed out whole
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()
    kept = call()
    torch.cuda.synchronize()
    after = torch.cuda.memory_stats()
    del kept
    return tuple(  # type: ignore[return-value]
        after[f"{kind}_bytes.all.peak"] - before[f"{kind}_bytes.all.current"] for kind in ("requested", "allocated")
    )


# -- parity ----------------------------------------------------------------------------------------------------


def parity(device: str) -> Iterator[Row]:
    """Time, memory and gradients beside torch.compile(dynamic=True)."""
    for name, shape in (("llama", (4, 256)), ("conv net", (8, 64)), ("llama bf16", (4, 256))):
        yield from guarded({"model": name}, lambda n=name, s=shape: compare(n, s, device))


def compare(name: str, shape: tuple[int, int], device: str) -> Iterator[Row]:
    """One model under both backends, steps in turn."""
    import copy

    import torch

    torch._dynamo.reset()
    model, make = make_case(name, device)
    models = {"inductor": model, "lowtide": copy.deepcopy(model)}
    runs, row = {}, {"model": name, "shape": list(shape)}
    for backend, own in models.items():
        start = time.perf_counter()
        runs[backend] = compiled_with(own, backend, "inductor")
        step(runs[backend], make(2, 64))
        wait(device)
        row[f"compile_s_{backend}"] = round(time.perf_counter() - start, 2)
    inputs = make(*shape)
    losses, gradients = {}, {}
    for backend, own in models.items():
        drop_gradients(own)
        losses[backend] = float(step(runs[backend], inputs))
        gradients[backend] = [p.grad.clone() for p in own.parameters() if p.grad is not None]
        drop_gradients(own)
    worst = max(
        (float((a - b).abs().max() / (a.abs().max() + 1e-12)) for a, b in zip(*gradients.values(), strict=True)),
        default=0.0,
    )
    same = sum(torch.equal(a, b) for a, b in zip(*gradients.values(), strict=True))
    row |= {"loss_difference": abs(losses["inductor"] - losses["lowtide"]), "gradient_difference": worst}
    row |= {"gradients_equal": f"{same}/{len(gradients['inductor'])}"}
    gradients.clear()
    peaks, times = {}, {backend: [] for backend in runs}
    for backend, own in models.items():
        peaks[backend], _ = measure(lambda b=backend: step(runs[b], inputs), device)
        drop_gradients(own)
    for _ in range(30):
        for backend, own in models.items():
            wait(device)
            start = time.perf_counter()
            step(runs[backend], inputs)
            wait(device)
            times[backend].append(time.perf_counter() - start)
            drop_gradients(own)
    ratios = [b / a for a, b in zip(times["inductor"][5:], times["lowtide"][5:], strict=True)]
    row |= {"step_ms": round(1000 * statistics.median(times["lowtide"][5:]), 3)}
    row |= {
        "step_ratio": round(statistics.median(ratios), 4),
        "peak_ratio": round(peaks["lowtide"] / peaks["inductor"], 4),
    }
    yield row


def wait(device: str) -> None:
    """Wait for the device."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


# -- training --------------------------------------------------------------------------------------------------


def training(device: str) -> Iterator[Row]:
    """A short training on batches of varying length, as in the demo, with random tokens that repeat."""
    for name in ("llama", "llama bf16"):
        yield from guarded({"model": name}, lambda n=name: train(n, device))


def train(name: str, device: str) -> Iterator[Row]:
    """Train one model for 60 steps at 12 lengths."""
    import torch
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    model, make = make_case(name, device)
    run = compiled_with(model, "lowtide", "inductor")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    lengths = [17, 33, 64, 95, 120, 131, 200, 257, 300, 384, 450, 512]
    losses: list[float] = []
    start, tokens = time.perf_counter(), 0
    for number in range(60):
        inputs = make(4, lengths[number % len(lengths)])
        losses.append(float(step(run, inputs)))
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if number == len(lengths) - 1:
            wait(device)
            start, tokens = time.perf_counter(), 0
        tokens += inputs["input_ids"].numel()
    wait(device)
    yield {
        "model": name,
        "first_loss": round(statistics.mean(losses[:6]), 4),
        "last_loss": round(statistics.mean(losses[-6:]), 4),
        "falls": statistics.mean(losses[-6:]) < statistics.mean(losses[:6]),
        "tokens_per_second": round(tokens / (time.perf_counter() - start)),
        "compilations": counters["stats"]["unique_graphs"],
    }


# -- rows ------------------------------------------------------------------------------------------------------


def guarded(names: Row, rows: Callable[[], Iterator[Row]]) -> Iterator[Row]:
    """The rows, or one row that says what went wrong."""
    try:
        yield from rows()
    except Exception as error:
        traceback.print_exc()
        yield {**names, "error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}


def print_table(folder: Path) -> None:
    """Print the rows of all parts under one another."""
    for part in PARTS:
        file = folder / f"{part}.json"
        rows = json.loads(file.read_text()) if file.exists() else []
        print(f"== {part}" + ("" if rows else ": no rows"))
        columns = list(dict.fromkeys(key for row in rows for key in row))
        cells = [columns, *([text(row.get(column)) for column in columns] for row in rows)]
        widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
        for row in cells if rows else []:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def text(value: Any) -> str:
    """A cell."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()

"""The speed of training beside a plain reference, on whatever device is there; prints ratios and writes JSON.

    make bench                                          # or
    .venv/bin/python benchmarks/speed.py [--device auto] [--out benchmarks/speed.json] [--only steps epoch ...]

Ours and the reference take turns in one process; times are medians over rounds, ratios medians of the rounds' ratios.
Times are milliseconds a training step unless they say otherwise.
"""

import argparse
import json
import time
from pathlib import Path

import reference
import torch
from synthetic import synthetic_splits
from timing import peak_memory, synchronize, time_in_turns
from torch.utils.flop_counter import FlopCounterMode
from torch_geometric.loader import DataLoader

from outland.devices import find_device
from outland.graphs import Batches, Splits
from outland.methods import METHODS, Progress, build_method, method_settings
from outland.nn import BackboneSettings
from outland.ops import use_kernels
from outland.training import Trainer, TrainSettings
from outland.training.precision import autocast
from outland.training.record import describe_platform
from outland.training.steps import Steps

FAMILIES = {"motif": (300, 512), "cmnist": (300, 96), "molbbbp": (64, 512), "molhiv": (300, 512)}  # width, graphs
REFERENCES = {"erm": reference.ERM, "aia": reference.AIA}


class OutlandSteps:
    """Our way of taking steps, replayed where the device allows."""

    def __init__(self, name: str, splits: Splits, device: torch.device, width: int, batch_size: int = 32) -> None:
        torch.manual_seed(0)
        self.splits = splits.to(device)
        backbone = BackboneSettings(width=width, layers=4, dropout=0.5)
        method = build_method(name, splits.schema, backbone, method_settings(name, {})).to(device)
        frame = TrainSettings(epochs=10**6, batch_size=batch_size)
        self.trainer = Trainer(method, self.splits, frame, replay=device.type == "cuda")
        method.reseed(0, device)
        self.steps: Steps = self.trainer.new_steps()
        self.epochs = 0
        self._iterator = iter(())
        if device.type == "cuda":  # every shape of batch is met, and captured, before a clock starts
            for _ in range(2 * len(self.trainer.batches)):
                self.step()
            synchronize(device)

    def step(self) -> None:
        """One step; after an epoch the next begins."""
        for _ in range(2):
            try:
                next(self._iterator)
                return
            except StopIteration:
                self._iterator = self.trainer.capture.on_stream(self.steps.epoch(self.epochs, 10**6))
                self.epochs += 1


class ReferenceSteps:
    """The usual way: a DataLoader and a model in eager mode."""

    def __init__(self, name: str, splits: Splits, device: torch.device, width: int, batch_size: int = 32) -> None:
        torch.manual_seed(0)
        self.device = device
        train = splits.graphs.select(splits["train"]).to_data_list()
        self.loader = DataLoader(train, batch_size, shuffle=True)
        self.model = REFERENCES[name](splits.schema, width).to(device)
        self._iterator = iter(())
        self.step()

    def step(self) -> None:
        """One step, the collation of its batch included."""
        try:
            data = next(self._iterator)
        except StopIteration:
            self._iterator = iter(self.loader)
            data = next(self._iterator)
        self.model.step(data.to(self.device))

    @torch.no_grad()
    def evaluate(self, loaders: list[DataLoader]) -> None:
        """Count the correct predictions of each part."""
        self.model.eval()
        for loader in loaders:
            correct = 0
            for data in loader:
                data = data.to(self.device)
                correct += int((self.model(data).argmax(1) == data.y).sum())


def steps(device: torch.device, rounds: int) -> list[dict]:
    """ERM and AIA beside the reference on all four families."""
    rows = []
    for name, (width, graphs) in FAMILIES.items():
        splits = synthetic_splits(name, graphs)
        for method in REFERENCES:
            calls = 2 if name == "cmnist" or device.type == "cpu" else 20
            ours, our_peak = peak_memory(device, OutlandSteps, method, splits, device, width)
            plain, plain_peak = peak_memory(device, ReferenceSteps, method, splits, device, width)
            timings = time_in_turns({"ours": ours.step, "plain": plain.step}, device, rounds, calls)
            rows.append(
                {
                    "family": name,
                    "method": method,
                    "width": width,
                    "ours_ms": round(timings.ms("ours"), 3),
                    "plain_ms": round(timings.ms("plain"), 3),
                    "ratio": round(timings.ratio(), 3),
                    "graphs_a_second": round(32e3 / timings.ms("ours")),
                    "peak_mb": our_peak,
                    "plain_peak_mb": plain_peak,
                }
            )
            print(rows[-1], flush=True)
    return rows


def methods(device: torch.device, rounds: int) -> list[dict]:
    """Every method on Motif, relative to ERM."""
    # four epochs at a time: some methods do another thing in another
    graphs, calls = (64, 8) if device.type == "cpu" else (512, 64)
    splits, rows = synthetic_splits("motif", graphs), []
    for name in METHODS:
        pair = {method: OutlandSteps(method, splits, device, 300).step for method in dict.fromkeys(("erm", name))}
        timings = time_in_turns(pair, device, max(2, rounds // 2), calls)
        rows.append({"method": name, "ms": round(timings.ms(name), 3), "to_erm": round(timings.ratio(name, "erm"), 2)})
        print(rows[-1], flush=True)
    return rows


def collation(device: torch.device, rounds: int) -> dict:
    """Gathering the batches of an epoch, beside PyG's DataLoader."""
    splits = synthetic_splits("motif", 2048).to(device)
    batches = Batches(splits.graphs, splits["train"], 32, shuffle=True)
    loader = DataLoader(splits.graphs.to("cpu").select(splits["train"]).to_data_list(), 32, shuffle=True)
    count = len(loader)
    functions = {
        "ours": lambda: [None for _ in batches.epoch(0)],
        "plain": lambda: [b.to(device) and None for b in loader],
    }
    timings = time_in_turns(functions, device, rounds, 1)
    row = {name: round(timings.ms(name) / count, 4) for name in timings}
    row |= {"times_faster": timings.ratio("plain", "ours")}
    print("collation, ms a batch", row, flush=True)
    return row


def epoch(device: torch.device, rounds: int) -> dict:
    """A whole epoch of AIA with the evaluation of all parts, beside the reference."""
    splits = synthetic_splits("motif", 512 if device.type == "cpu" else 3000)
    plain = ReferenceSteps("aia", splits, device, 300)
    ours = OutlandSteps("aia", splits, device, 300)
    parts = [index for part, index in splits.parts.items() if part != "train"]
    loaders = [DataLoader(splits.graphs.select(index).to_data_list(), 64) for index in parts]
    evaluation = ours.trainer.evaluation

    def evaluate() -> None:
        evaluation.run()
        evaluation.by_part(evaluation.scores)

    def our_epoch() -> None:
        for _ in range(len(ours.trainer.batches)):
            ours.step()
        synchronize(device)  # steps and evaluation share their memory, and one stream while training
        evaluate()

    def plain_epoch() -> None:
        for _ in range(len(plain.loader)):
            plain.step()
        plain.evaluate(loaders)

    scored = {"ours": evaluate, "plain": lambda: plain.evaluate(loaders)}
    whole = time_in_turns({"ours": our_epoch, "plain": plain_epoch}, device, rounds, 1, warmup=1)
    scoring = time_in_turns(scored, device, rounds, 1, warmup=1)
    row = {
        "epoch_ms": {name: whole.ms(name) for name in whole},
        "ratio": whole.ratio(),
        "evaluation_ms": {name: scoring.ms(name) for name in scoring},
        "evaluation_ratio": scoring.ratio(),
    }
    print("epoch", row, flush=True)
    return row


def growth(device: torch.device, rounds: int) -> list[dict]:
    """How AIA's step grows with batch size, width, edges, and with the number of runs side by side."""
    on_gpu = device.type == "cuda"
    rows, few = [], max(1, rounds // 3)
    motif = synthetic_splits("motif", 512)

    def step_ms(splits: Splits, width: int, batch_size: int = 32) -> float:
        step = OutlandSteps("aia", splits, device, width, batch_size).step
        return time_in_turns({"step": step}, device, few, 2).ms("step")

    for batch_size in (32, 128, 512) if on_gpu else (16, 32, 64):
        ms = step_ms(motif, 300, batch_size)
        rows.append({"batch_size": batch_size, "ms": ms, "graphs_a_second": batch_size / ms * 1e3})
    rows += [{"width": width, "ms": step_ms(motif, width)} for width in (64, 128, 300)]
    for name in ("motif", "cmnist"):
        splits = synthetic_splits(name, 512 if on_gpu else 64)
        rows.append({"edges": float(splits.graphs.edge_counts.float().mean()), "ms": step_ms(splits, 64)})
    for count in (1, 2, 5, 10) if on_gpu else (1, 2):
        runs = [OutlandSteps("aia", motif, device, 300) for _ in range(count)]
        rows.append({"runs": count, "ms_a_run_step": fleet_ms(runs, device, few, 10 if on_gpu else 1)})
    for row in rows:
        print(row, flush=True)
    return rows


def fleet_ms(runs: list[OutlandSteps], device: torch.device, rounds: int, calls: int) -> float:
    """Milliseconds a step of one of several runs that take their steps side by side."""
    timings = time_in_turns({"all": lambda: [run.step() for run in runs]}, device, rounds, calls)
    return timings.ms("all") / len(runs)


def fleet(device: torch.device, rounds: int) -> list[dict]:
    """Runs side by side in one process, each on its own CUDA stream; milliseconds a step of one of them."""
    on_gpu, rows = device.type == "cuda", []
    cells = [("erm", "motif", 300, 32), ("aia", "motif", 300, 32), ("aia", "molbbbp", 64, 32)]
    cells += [("erm", "motif", 300, 512), ("aia", "motif", 300, 512), ("aia", "cmnist", 300, 32)] if on_gpu else []
    cells += [("aia", "cmnist", 300, 512)] if on_gpu else []

    def several(count: int, *args: object) -> list[OutlandSteps]:
        return [OutlandSteps(*args) for _ in range(count)]

    for method, name, width, batch_size in cells:
        splits = synthetic_splits(name, 1024 if name == "cmnist" and on_gpu else 8192 if on_gpu else 64)
        for count in (1,) if name == "cmnist" else (1, 10) if on_gpu else (1, 2):
            runs, peak = peak_memory(device, several, count, method, splits, device, width, batch_size)
            row = {"method": method, "family": name, "width": width, "batch_size": batch_size, "runs": count}
            ms = fleet_ms(runs, device, rounds, 20 if on_gpu else 1)
            rows.append({**row, "ms_a_run_step": round(ms, 4), "peak_mb": peak})
            print(rows[-1], flush=True)
    return rows


def floor(device: torch.device, rounds: int) -> dict:
    """The share of a step that its arithmetic would take at the speed this device multiplies matrices.

    That is the speed of products of a step's own size on a CPU, and of a large one on a GPU, where small ones idle.
    """
    ours = OutlandSteps("aia", synthetic_splits("motif", 64 if device.type == "cpu" else 512), device, 300)
    batch = next(iter(ours.trainer.batches))
    batch = batch.replace(incoming=None, outgoing=None, node_ptr=None)  # the counter counts sparse products as dense
    with FlopCounterMode(display=False) as counter, use_kernels(False):
        ours.trainer.stepper.step(batch, Progress())  # it sees nothing of what our own kernels do
    rows, inner, columns = (8192, 8192, 8192) if device.type == "cuda" else (608, 300, 600)
    a, b = (torch.randn(shape, device=device) for shape in ((rows, inner), (inner, columns)))
    with autocast("tf32", device):
        timings = time_in_turns({"product": lambda: a @ b, "step": ours.step}, device, rounds, 5)
    rate = 2 * rows * inner * columns / timings.ms("product") * 1e3
    operations = counter.get_total_flops()
    row = {
        "gflop_a_step": operations / 1e9,
        "product_gflops": rate / 1e9,
        "floor_ms": operations / rate * 1e3,
        "step_ms": timings.ms("step"),
        "share": operations / rate * 1e3 / timings.ms("step"),
    }
    print("arithmetic floor", row, flush=True)
    return row


BENCHMARKS = {function.__name__: function for function in (steps, epoch, collation, methods, growth, fleet, floor)}


def main() -> None:
    """Run the benchmarks that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/speed.json"))
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--only", nargs="*", default=list(BENCHMARKS))
    arguments = parser.parse_args()
    device = find_device(arguments.device)
    started = time.perf_counter()
    results: dict = {"platform": describe_platform(device), "threads": torch.get_num_threads()}
    for name in arguments.only:
        results[name] = BENCHMARKS[name](device, arguments.rounds)
        results["seconds"] = round(time.perf_counter() - started, 1)
        arguments.out.write_text(json.dumps(results, indent=1) + "\n")
    print(f"{results['seconds']} s; {arguments.out}")


if __name__ == "__main__":
    main()

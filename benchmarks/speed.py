"""How fast we are beside a plain reference, on whatever device is there; prints ratios and writes JSON.

    make bench                                          # or
    .venv/bin/python benchmarks/speed.py [--device auto] [--out benchmarks/speed.json] [--only steps epoch ...]

Ours and the reference take turns in one process, so that a busy machine slows both alike; what is told is the median of
the rounds, for a ratio that of their ratios. Times are milliseconds a training step unless they say otherwise.
"""

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import reference
import torch
from shapes import family
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
PLAIN = {"erm": reference.ERM, "aia": reference.AIA}


class Ours:
    """Our way of taking steps, recorded where the device allows."""

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
        self._walk = iter(())
        if device.type == "cuda":  # every shape of batch is met, and recorded, before a clock starts
            for _ in range(2 * len(self.trainer.batches)):
                self.step()
            wait(device)

    def step(self) -> None:
        """One step; after an epoch the next begins."""
        for _ in range(2):
            try:
                next(self._walk)
                return
            except StopIteration:
                self._walk = self.trainer.capture.on_stream(self.steps.epoch(self.epochs, 10**6))
                self.epochs += 1


class Plain:
    """The usual way: a DataLoader and a model in eager mode."""

    def __init__(self, name: str, splits: Splits, device: torch.device, width: int, batch_size: int = 32) -> None:
        torch.manual_seed(0)
        self.device = device
        train = splits.graphs.select(splits["train"]).to_data_list()
        self.loader = DataLoader(train, batch_size, shuffle=True)
        self.model = PLAIN[name](splits.schema, width).to(device)
        self._walk = iter(())
        self.step()

    def step(self) -> None:
        """One step, the collation of its batch included."""
        try:
            data = next(self._walk)
        except StopIteration:
            self._walk = iter(self.loader)
            data = next(self._walk)
        self.model.step(data.to(self.device))


def wait(device: torch.device) -> None:
    """Until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Race(dict[str, list[float]]):
    """Milliseconds a call of every side, round by round."""

    def ms(self, side: str) -> float:
        """The median."""
        return statistics.median(self[side])

    def ratio(self, one: str = "ours", other: str = "plain") -> float:
        """The median of what one side needs of the other's time in the same round, when the machine is the same."""
        return statistics.median(a / b for a, b in zip(self[one], self[other], strict=True))


def race(sides: dict[str, Callable[[], None]], device: torch.device, rounds: int, each: int, warm: int = 3) -> Race:
    """Let all sides take turns, so many calls each time."""
    times = Race({name: [] for name in sides})
    for work in sides.values():
        for _ in range(warm):
            work()
    for _ in range(rounds):
        for name, work in sides.items():
            wait(device)
            started = time.perf_counter()
            for _ in range(each):
                work()
            wait(device)
            times[name].append((time.perf_counter() - started) / each * 1e3)
    return times


Made = TypeVar("Made")


def several(count: int, *what: Any) -> list[Ours]:
    """Runs of ours, side by side."""
    return [Ours(*what) for _ in range(count)]


def peak(device: torch.device, make: Callable[..., Made], *of: Any) -> tuple[Made, float | None]:
    """What is made, and the most memory that it took of the device meanwhile, in MB; on a CPU nobody knows."""
    if device.type != "cuda":
        return make(*of), None
    gc.collect()  # whoever was made before is gone
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    made = make(*of)
    return made, round((torch.cuda.max_memory_allocated(device) - before) / 1e6, 1)


def steps(device: torch.device, rounds: int) -> list[dict]:
    """ERM and AIA beside the reference on all four families."""
    rows = []
    for name, (width, graphs) in FAMILIES.items():
        splits = family(name, graphs)
        for method in PLAIN:
            each = 2 if name == "cmnist" or device.type == "cpu" else 20
            ours, our_peak = peak(device, Ours, method, splits, device, width)
            plain, plain_peak = peak(device, Plain, method, splits, device, width)
            times = race({"ours": ours.step, "plain": plain.step}, device, rounds, each)
            rows.append(
                {
                    "family": name,
                    "method": method,
                    "width": width,
                    "ours_ms": round(times.ms("ours"), 3),
                    "plain_ms": round(times.ms("plain"), 3),
                    "ratio": round(times.ratio(), 3),
                    "graphs_a_second": round(32e3 / times.ms("ours")),
                    "peak_mb": our_peak,
                    "plain_peak_mb": plain_peak,
                }
            )
            print(rows[-1], flush=True)
    return rows


def methods(device: torch.device, rounds: int) -> list[dict]:
    """Every method on Motif, relative to ERM."""
    # four epochs at a time: some methods do another thing in another
    graphs, each = (64, 8) if device.type == "cpu" else (512, 64)
    splits, rows = family("motif", graphs), []
    for name in METHODS:
        sides = {side: Ours(side, splits, device, 300) for side in dict.fromkeys(("erm", name))}
        times = race({side: one.step for side, one in sides.items()}, device, max(2, rounds // 2), each)
        rows.append({"method": name, "ms": round(times.ms(name), 3), "to_erm": round(times.ratio(name, "erm"), 2)})
        print(rows[-1], flush=True)
    return rows


def collation(device: torch.device, rounds: int) -> dict:
    """Cutting the batches of an epoch, beside PyG's DataLoader."""
    splits = family("motif", 2048).to(device)
    batches = Batches(splits.graphs, splits["train"], 32, shuffle=True)
    loader = DataLoader(splits.graphs.to("cpu").select(splits["train"]).to_data_list(), 32, shuffle=True)
    count = len(loader)
    sides = {"ours": lambda: [None for _ in batches.epoch(0)], "plain": lambda: [b.to(device) and None for b in loader]}
    times = race(sides, device, rounds, 1)
    row = {side: round(times.ms(side) / count, 4) for side in times} | {"times_faster": times.ratio("plain", "ours")}
    print("collation, ms a batch", row, flush=True)
    return row


def epoch(device: torch.device, rounds: int) -> dict:
    """A whole epoch of AIA with the evaluation of all parts, beside the reference."""
    splits = family("motif", 512 if device.type == "cpu" else 3000)
    plain = Plain("aia", splits, device, 300)
    ours = Ours("aia", splits, device, 300)
    parts = [index for part, index in splits.parts.items() if part != "train"]
    loaders = [DataLoader(splits.graphs.select(index).to_data_list(), 64) for index in parts]
    evaluation = ours.trainer.new_evaluation()

    def our_epoch() -> None:
        for _ in range(len(ours.trainer.batches)):
            ours.step()
        wait(device)  # steps and evaluation share their memory, and are in one queue while training
        evaluation.run()
        evaluation.scores()

    @torch.no_grad()
    def plain_evaluation() -> None:
        plain.model.eval()
        for loader in loaders:
            right = 0
            for data in loader:
                data = data.to(device)
                right += int((plain.model(data).argmax(1) == data.y).sum())

    def plain_epoch() -> None:
        for _ in range(len(plain.loader)):
            plain.step()
        plain_evaluation()

    def our_evaluation() -> None:
        evaluation.run()
        evaluation.scores()

    whole = race({"ours": our_epoch, "plain": plain_epoch}, device, rounds, 1, warm=1)
    parts_only = race({"ours": our_evaluation, "plain": plain_evaluation}, device, rounds, 1, warm=1)
    row = {
        "epoch_ms": {side: whole.ms(side) for side in whole},
        "ratio": whole.ratio(),
        "evaluation_ms": {side: parts_only.ms(side) for side in parts_only},
        "evaluation_ratio": parts_only.ratio(),
    }
    print("epoch", row, flush=True)
    return row


def growth(device: torch.device, rounds: int) -> list[dict]:
    """How AIA's step grows with batch size, width, edges, and with the number of runs side by side."""
    on_gpu = device.type == "cuda"
    rows, few = [], max(1, rounds // 3)
    motif = family("motif", 512)
    for batch_size in (32, 128, 512) if on_gpu else (16, 32, 64):
        time_ = race({"one": Ours("aia", motif, device, 300, batch_size).step}, device, few, 2).ms("one")
        rows.append({"batch_size": batch_size, "ms": time_, "graphs_a_second": batch_size / time_ * 1e3})
    for width in (64, 128, 300):
        rows.append(
            {"width": width, "ms": race({"one": Ours("aia", motif, device, width).step}, device, few, 2).ms("one")}
        )
    for name in ("motif", "cmnist"):
        splits = family(name, 512 if on_gpu else 64)
        edges = float(splits.graphs.edge_counts.float().mean())
        rows.append(
            {"edges": edges, "ms": race({"one": Ours("aia", splits, device, 64).step}, device, few, 2).ms("one")}
        )
    for count in (1, 2, 5, 10) if on_gpu else (1, 2):
        runs = [Ours("aia", motif, device, 300) for _ in range(count)]
        each = 10 if on_gpu else 1
        together = race({"all": lambda runs=runs: [one.step() for one in runs]}, device, few, each).ms("all")
        rows.append({"runs": count, "ms_a_run_step": together / count})
    for row in rows:
        print(row, flush=True)
    return rows


def fleet(device: torch.device, rounds: int) -> list[dict]:
    """Runs side by side in one process, each with its own queue; milliseconds a step of one of them."""
    on_gpu, rows = device.type == "cuda", []
    cells = [("erm", "motif", 300, 32), ("aia", "motif", 300, 32), ("aia", "molbbbp", 64, 32)]
    cells += [("erm", "motif", 300, 512), ("aia", "motif", 300, 512), ("aia", "cmnist", 300, 32)] if on_gpu else []
    cells += [("aia", "cmnist", 300, 512)] if on_gpu else []
    for method, name, width, batch_size in cells:
        splits = family(name, 1024 if name == "cmnist" and on_gpu else 8192 if on_gpu else 64)
        for count in (1,) if name == "cmnist" else (1, 10) if on_gpu else (1, 2):
            runs, most = peak(device, several, count, method, splits, device, width, batch_size)
            each = 20 if on_gpu else 1
            together = race({"all": lambda runs=runs: [one.step() for one in runs]}, device, rounds, each).ms("all")
            rows.append(
                {
                    "method": method,
                    "family": name,
                    "width": width,
                    "batch_size": batch_size,
                    "runs": count,
                    "ms_a_run_step": round(together / count, 4),
                    "peak_mb": most,
                }
            )
            print(rows[-1], flush=True)
    return rows


def floor(device: torch.device, rounds: int) -> dict:
    """The share of a step that its arithmetic would take at the speed this device multiplies matrices.

    That is the speed of products of a step's own size on a CPU, and of a large one on a GPU, where small ones idle.
    """
    ours = Ours("aia", family("motif", 64 if device.type == "cpu" else 512), device, 300)
    batch = next(iter(ours.trainer.batches))
    batch = batch.replace(
        incoming=None, outgoing=None, node_ptr=None
    )  # the counter takes sparse products for dense ones
    with FlopCounterMode(display=False) as counter, use_kernels(False):
        ours.trainer.stepper.step(batch, Progress())  # it sees nothing of what our own kernels do
    rows, inner, columns = (8192, 8192, 8192) if device.type == "cuda" else (608, 300, 600)
    a, b = (torch.randn(shape, device=device) for shape in ((rows, inner), (inner, columns)))
    with autocast("tf32", device):
        times = race({"product": lambda: a @ b, "step": ours.step}, device, rounds, 5)
    rate = 2 * rows * inner * columns / times.ms("product") * 1e3
    operations = counter.get_total_flops()
    row = {
        "gflop_a_step": operations / 1e9,
        "product_gflops": rate / 1e9,
        "floor_ms": operations / rate * 1e3,
        "step_ms": times.ms("step"),
        "share": operations / rate * 1e3 / times.ms("step"),
    }
    print("arithmetic floor", row, flush=True)
    return row


PARTS = {f.__name__: f for f in (steps, epoch, collation, methods, growth, fleet, floor)}


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/speed.json"))
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--only", nargs="*", default=list(PARTS))
    arguments = parser.parse_args()
    device = find_device(arguments.device)
    started = time.perf_counter()
    found: dict = {"environment": describe_platform(device), "threads": torch.get_num_threads()}
    for name in arguments.only:
        found[name] = PARTS[name](device, arguments.rounds)
        found["seconds"] = round(time.perf_counter() - started, 1)
        arguments.out.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{found['seconds']} s; {arguments.out}")


if __name__ == "__main__":
    main()

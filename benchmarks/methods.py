"""Every method on a cut of Motif, several seeds side by side in processes: scores, mask quality and cost; writes JSON.

    .venv/bin/python benchmarks/methods.py [--out results/motif-3000.json] [--seeds 5] [--workers 2]

One thread a run. Cost is the time of a training epoch with its evaluation, relative to ERM's beside it.
"""

import argparse
import json
import os
import statistics
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

WORDS = ["data.limit=3000", "backbone.width=64", "train.batch_size=64", "train.checkpoint_every=1000"]


def train(method: str, seed: int, epochs: int, folder: str) -> dict:
    """One run: its scores under the selection rule and at the last epoch, and the time of an epoch."""
    import torch

    from outland.training import RunSpec, run

    torch.set_num_threads(1)
    spec = RunSpec.from_words("motif", method, [*WORDS, f"train.epochs={epochs}"], domain="base", seed=seed)
    record = run(spec, folder, device="cpu")
    selected, last = record.selection[record.selected], record.selection["last_epoch"]
    return {
        "method": method,
        "seed": seed,
        "key": record.key,
        "id_test": selected["id_test"],
        "val": selected["val"],
        "test": selected["test"],
        "last_test": last["test"],
        "last_id_test": last["id_test"],
        "masks": record.masks.get("test", {}),
        "epoch_seconds": statistics.median(record.timing["epochs"]),
    }


def summary(rows: list[dict]) -> list[dict]:
    """Mean and population standard deviation over seeds, a row a method."""
    erm = statistics.mean(row["epoch_seconds"] for row in rows if row["method"] == "erm")
    table = []
    for method in dict.fromkeys(row["method"] for row in rows):
        runs = [row for row in rows if row["method"] == method]
        line: dict = {"method": method, "seeds": len(runs)}
        for name in ("id_test", "val", "test", "last_id_test", "last_test"):
            values = [100 * row[name] for row in runs]
            line[name] = [round(statistics.mean(values), 2), round(statistics.pstdev(values), 2)]
        masks = [row["masks"]["rocauc"] for row in runs if row["masks"]]
        line["mask_rocauc"] = [round(statistics.mean(masks), 3), round(statistics.pstdev(masks), 3)] if masks else None
        line["cost"] = round(statistics.mean(row["epoch_seconds"] for row in runs) / erm, 2)
        table.append(line)
    return table


def main() -> None:
    """Run what is asked for, and write rows and summary after every run."""
    from outland.methods import METHODS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/motif-3000.json"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", nargs="*", default=[*METHODS, "disc:released"])
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    rows: list[dict] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(arguments.workers, get_context("spawn")) as pool,
    ):
        jobs = [
            pool.submit(train, method, seed, arguments.epochs, folder)
            for seed in range(1, arguments.seeds + 1)
            for method in arguments.only
        ]
        for job in as_completed(jobs):
            rows.append(job.result())
            print(rows[-1]["method"], rows[-1]["seed"], rows[-1]["test"], rows[-1]["epoch_seconds"], flush=True)
            if any(row["method"] == "erm" for row in rows):
                order = sorted(rows, key=lambda row: (arguments.only.index(row["method"]), row["seed"]))
                about = {"settings": WORDS, "epochs": arguments.epochs, "workers": arguments.workers}
                results = {"about": about, "summary": summary(order), "runs": order}
                arguments.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

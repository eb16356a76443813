"""How long datasets take to prepare and to load again, and whether ERM and AIA train on each; writes JSON.

    OUTLAND_DATA=DIR .venv/bin/python benchmarks/data.py [--out benchmarks/data.json] [--only motif molbbbp]

Every dataset is prepared into a fresh, temporary cache, then loaded again; then both methods train one epoch on a cut
of it under every shift, on the CPU.
"""

import argparse
import json
import os
import platform
import resource
import tempfile
import time
from pathlib import Path

import torch

from outland.datasets import DATASETS, DataFolder, find_dataset
from outland.graphs import Cache
from outland.training import RunSpec, run


def clock(work):
    """Seconds that `work` takes, and what it gives."""
    started = time.perf_counter()
    result = work()
    return round(time.perf_counter() - started, 2), result


def prepare(name: str, domain: str, cache: Cache, data: DataFolder) -> dict:
    """Seconds to make a dataset and to load it again, and the parts' sizes."""
    dataset = find_dataset(name)
    kind = dataset.kinds[0]
    made, _ = clock(lambda: dataset.load(domain, kind, cache=cache, data=data))
    again, splits = clock(lambda: dataset.load(domain, kind, cache=cache, data=data))
    sizes = {part: len(index) for part, index in splits.parts.items()}
    return {"dataset": name, "shift": domain, "prepare_s": made, "load_s": again, "sizes": sizes}


def train(name: str, domain: str, kind: str, method: str, cache: Cache, data: DataFolder, out: str) -> dict:
    """One epoch on a cut of the data."""
    words = ["data.limit=256", "backbone.width=16", "train.epochs=1", "train.burn_in=0"]
    spec = RunSpec.from_words(name, method, words, domain=domain, kind=kind)
    record = run(spec, out, device="cpu", cache=cache, data=data)
    return {
        "dataset": name,
        "shift": domain,
        "kind": kind,
        "method": method,
        "metric": record.metric,
        "test": record.test_score,
        "seconds": round(record.timing["seconds"], 2),
    }


def main() -> None:
    """Prepare, load, train; write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/data.json"))
    parser.add_argument("--only", nargs="*", default=list(DATASETS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    data, prepared, trained = DataFolder(), [], []
    with tempfile.TemporaryDirectory() as folder:
        cache = Cache(folder)
        for name in arguments.only:
            dataset = find_dataset(name)
            domains = dataset.domains if len(dataset.domains) < 3 else dataset.domains[:1]
            for domain in domains:
                prepared.append(prepare(name, domain, cache, data))
                print(prepared[-1], flush=True)
                for kind in dataset.kinds:
                    for method in ("erm", "aia"):
                        trained.append(train(name, domain, kind, method, cache, data, folder))
                        print(trained[-1], flush=True)
    about = {
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "torch": torch.__version__,
        "peak_memory_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }
    arguments.out.write_text(json.dumps({"about": about, "prepared": prepared, "trained": trained}, indent=1) + "\n")


if __name__ == "__main__":
    main()

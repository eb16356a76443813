"""How long a command takes from its start to the first training step, beside `import torch`; writes JSON.

    .venv/bin/python benchmarks/startup.py [--out benchmarks/startup.json] [--rounds 5] [--device auto]

Every measurement is a process of its own, and the commands take turns. Motif is prepared before. The heaviest imports
up to the first step are listed too, with the seconds that each takes with what it imports.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from outland.datasets import find_dataset
from outland.devices import find_device
from outland.training.record import describe_platform

_FIRST_STEP = """
import sys, time
started = time.perf_counter()
class Reached(BaseException): pass
def stop(*args): raise Reached
{setup}
sys.argv = ["outland", *{words}]
try:
    from outland.cli import main
    main()
except Reached:
    print("SECONDS", time.perf_counter() - started)
"""
# Set when the module is first imported, so that this measures no import that the command would not make itself.
_SETUP = """
import importlib.abc, importlib.machinery
class Finder(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        spec = super().find_spec(name, path, target)
        if name == "outland.training.stepper":
            execute = spec.loader.exec_module
            def patched(module):
                execute(module)
                {patch}
            spec.loader.exec_module = patched
        return spec
sys.meta_path.insert(0, Finder)
"""
_BEFORE, _AFTER = (
    "module.Stepper.step = stop",
    "step = module.Stepper.step; module.Stepper.step = lambda *a: (step(*a), stop())",
)
_CUT = ["--set", "data.limit=256", "--set", "train.epochs=1"]
_TRAIN = ["train", "motif", "--method", "aia", *_CUT, "--force"]
_STUDY = ["study", "covariate", "--only", "erm/motif-base", "--seeds", "1", "--limit", "256", "--epochs", "1"]


def scripts(device: str) -> dict[str, str]:
    """Programs that print the seconds they take."""
    train, study = ([*words, "--device", device] for words in (_TRAIN, _STUDY))

    def until(words: list[str], patch: str) -> str:
        return _FIRST_STEP.format(words=words, setup=_SETUP.format(patch=patch))

    clock = "import time; started = time.perf_counter(); {}; print('SECONDS', time.perf_counter() - started)"
    return {
        "import torch": clock.format("import torch"),
        "import outland.training": clock.format("import outland.training"),
        "import torch_geometric": clock.format("import torch_geometric"),
        "train: before the first step": until(train, _BEFORE),
        "train: after the first step": until(train, _AFTER),
        "study: before the first step": until(study, _BEFORE),
    }


def run(script: str, folder: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own."""
    command = [sys.executable, *options, "-c", script]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)


def seconds(script: str) -> float:
    """What a program prints; in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        output = run(script, folder).stdout
    return float(re.findall(r"SECONDS ([\d.]+)", output)[0])


def heaviest(script: str, count: int = 25) -> dict[str, float]:
    """The modules whose import takes longest, with all that they import."""
    with tempfile.TemporaryDirectory() as folder:
        lines = run(script, folder, "-X", "importtime").stderr
    rows = re.findall(r"import time:\s+\d+ \|\s+(\d+) \|\s+(\S+)", lines)
    ordered = sorted({name: int(total) / 1e6 for total, name in rows}.items(), key=lambda row: -row[1])
    return {name: round(total, 3) for name, total in ordered[:count]}


def main() -> None:
    """Measure in turns, and write medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("startup.json"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()
    find_dataset("motif").load("base", "covariate")
    programs = scripts(arguments.device)
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(arguments.rounds):
        for name, script in programs.items():
            times[name].append(seconds(script))
    base = times["import torch"]
    result = {
        "platform": describe_platform(find_device(arguments.device)),
        "torch": torch.__version__,
        "rounds": arguments.rounds,
        "seconds": {name: round(statistics.median(each), 2) for name, each in times.items()},
        "times_import_torch": {
            name: round(statistics.median(a / b for a, b in zip(each, base, strict=True)), 2)
            for name, each in times.items()
        },
        "imports_of_train": heaviest(programs["train: after the first step"]),
    }
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result["seconds"], indent=1), json.dumps(result["times_import_torch"], indent=1))


if __name__ == "__main__":
    main()

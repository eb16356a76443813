"""What children do before they are killed. This module never trains when it is imported: a fork must be clean."""

import contextlib
import gc
import os
import random
import resource
import signal
import sys
import time
from importlib import import_module
from pathlib import Path

import torch

import outland.cli
from outland.chem import smiles
from outland.datasets import TableSettings, find_dataset
from outland.graphs import Cache
from outland.models import table_predictions
from outland.studies import find_study
from outland.studies.engines.local import LocalEngine
from outland.studies.runner import run_study
from outland.studies.search import Search
from outland.training import RunSpec, run
from outland.training.checkpoint import Checkpoints
from tests.faults.harness import REPETITIONS

for late in (  # what is imported late is imported here: children are to work, not to import
    "optuna",
    "rdkit.Chem.Scaffolds.MurckoScaffold",
    "rdkit.Chem.rdFingerprintGenerator",
    "outland.estimators",
):
    with contextlib.suppress(ImportError):
        import_module(late)
torch.set_num_threads(1)
gc.freeze()  # children collect their own garbage only, and share the memory of what is imported
TABLE = Path(__file__).parents[1] / "data" / "bbbp.csv"
SMALL = {"train": {"epochs": 24, "checkpoint_every": 1}, "data": {"limit": 24}, "backbone": {"width": 8, "layers": 3}}
ROWS = ["ERM/motif-base", "VREx/motif-base", "AIA (released)/motif-base"]
SEEDS = 3 if REPETITIONS >= 1 else 1
RUNS = SEEDS * len(ROWS)
BLOCK = 64  # rows predicted at once, of a table of hundreds
FEW = ["train.epochs=6", "train.checkpoint_every=1", "data.limit=24", "backbone.width=8"]


def spec_of(method: str, seed: int = 0) -> RunSpec:
    """A run of two dozen short epochs, which is mostly the writing of checkpoints."""
    return RunSpec.make("bbbp", method, seed=seed, changes=SMALL, table=TableSettings(str(TABLE), target=("p_np",)))


def train(out: Path, cache: Path, method: str, seed: int = 0) -> None:
    """Begin a run, or go on with it."""
    run(spec_of(method, seed), out, resume=True, device="cpu", cache=Cache(cache))


def study(out: Path, cache: Path, workers: int = 1, log: Path | None = None) -> None:
    """Begin a study of nine runs (three in the short form), or go on with it."""
    if log is not None:
        _write_down_epochs(log)
    chosen = find_study("covariate")
    engine = LocalEngine(workers)
    run_study(chosen, chosen.cells(SEEDS, FEW, ROWS), out, device="cpu", cache=Cache(cache), engine=engine)


def build(cache: Path) -> None:
    """Prepare a table."""
    find_dataset("bbbp", TableSettings(str(TABLE), target=("p_np",))).load("scaffold", "covariate", cache=Cache(cache))


def search_of(out: Path) -> Search:
    """Six trials of VREx."""
    changes = {**SMALL, "train": {"epochs": 6, "checkpoint_every": 1}}
    return Search(RunSpec.make("motif", "vrex", changes=changes), 6, out)


def search(out: Path, cache: Path) -> None:
    """Begin a search, or go on with it."""
    search_of(out).run_trials(device="cpu", cache=Cache(cache))


def command(words: list[str], log: Path, cache: Path, largest: int | None = None) -> None:
    """The command line; what it says goes to a file. No file may grow beyond `largest` bytes."""
    stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    os.dup2(stream, 1)
    os.dup2(stream, 2)
    os.environ["OUTLAND_CACHE"] = str(cache)
    sys.argv = ["outland", *words]
    if largest is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    outland.cli.main()


def predict(words: list[str], log: Path, cache: Path, place: int = 0) -> None:
    """`outland predict` by blocks of `BLOCK` rows; dies where it comes to the `place`-th of them.

    It reads molecules by itself: a child that is killed has no children of its own.
    """
    smiles.available_cores = lambda: 1
    table_predictions._ROWS, predicted, blocks = BLOCK, table_predictions._predicted_rows, 0

    def dying(*given):
        nonlocal blocks
        blocks += 1
        if blocks == place:
            os.kill(os.getpid(), signal.SIGKILL)
        return predicted(*given)

    table_predictions._predicted_rows = dying
    command(words, log, cache)


def as_rank(rank: int, port: int, work, *given) -> None:
    """Do some work as one of two processes that `torchrun` would have started."""
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in place.items()})
    work(*given)


def with_a_mad_clock(seed: int, work, *given) -> None:
    """Do some work while the time of day jumps by years, to and fro."""
    chance, true = random.Random(seed), time.time
    time.time = lambda: true() + chance.uniform(-1e9, 1e9)
    gmtime = time.gmtime
    time.gmtime = lambda seconds=None: gmtime(time.time() if seconds is None else seconds)
    work(*given)


def killed_at(place: int, work, *given) -> None:
    """Do some work, and die at the `place`-th step of putting files in their places; count steps in both ways."""
    import shutil

    steps = 0

    def before(owner, name):
        kept = getattr(owner, name)

        def dying(*given, **named):
            nonlocal steps
            steps += 1
            if steps == place:
                os.kill(os.getpid(), signal.SIGKILL)
            return kept(*given, **named)

        setattr(owner, name, dying)

    for owner, name in (
        (os, "mkdir"),
        (os, "fsync"),
        (os, "replace"),
        (os, "rename"),
        (os, "unlink"),
        (shutil, "rmtree"),
    ):
        before(owner, name)
    work(*given)


def _write_down_epochs(log: Path) -> None:
    """Every checkpoint leaves a line: which process, which run, which epoch."""
    save = Checkpoints.save

    def noted(self: Checkpoints, epoch: int, snapshot) -> None:
        with log.open("a") as stream:
            stream.write(f"{os.getpid()} {self.folder.parent.name} {epoch}\n")
        save(self, epoch, snapshot)

    Checkpoints.save = noted


def short_train(out: Path, cache: Path) -> None:
    """Two epochs."""
    table = TableSettings(str(TABLE), target=("p_np",))
    spec = RunSpec.make("bbbp", "erm", changes={**SMALL, "train": {"epochs": 2, "checkpoint_every": 1}}, table=table)
    run(spec, out, resume=True, device="cpu", cache=Cache(cache))


def sleeping(number: int) -> int:
    """A second of work."""
    time.sleep(1)
    return number

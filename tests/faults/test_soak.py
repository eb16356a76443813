"""Many loads, predictions and refusals in one process: memory and open files stay level."""

import gc
import os
from pathlib import Path

import pytest

from outland.errors import OutlandError
from outland.graphs import Cache
from outland.models import load_model
from outland.models.predicted_rows import predict_molecules
from outland.storage.locks import locked
from outland.storage.snapshots import read_snapshot
from tests.faults.harness import scaled
from tests.faults.hostile import sealed
from tests.faults.test_strangers import SMILES, tiny  # noqa: F401
from tests.graphs.test_cache import KEY, toy

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc, which is not here"),
]
ROUNDS = 400
GROWTH = 24 << 20  # bytes that an allocator may keep for itself


def resident() -> int:
    """Bytes of this process's own memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors() -> int:
    """Open files of this process."""
    return len(os.listdir("/proc/self/fd"))


def test_memory_and_descriptors_stay_level(tiny, tmp_path, tally):  # noqa: F811
    from outland.chem.smiles import MoleculeOptions, read_molecules

    (chunk,) = read_molecules(SMILES, MoleculeOptions(scaffold=False, vector=True), "")
    saved, cache = read_snapshot(tiny), Cache(tmp_path / "cache")
    cache.store(KEY, toy())
    broken = sealed(tmp_path / "broken", {**saved.values, "reads": 7}, saved.tensors)
    os.mkfifo(tmp_path / "pipe")

    def one_round() -> None:
        model = load_model(tiny)
        assert len(predict_molecules(model, chunk.molecules)) == len(SMILES)
        assert cache.load(KEY) is not None
        for folder in (broken, tmp_path / "nowhere", tmp_path / "pipe"):
            with pytest.raises(OutlandError):
                load_model(folder)
        with locked(tmp_path / "x.lock", timeout=0):
            pass

    for _ in range(20):  # what is loaded once
        one_round()
    before, opened = resident(), descriptors()
    rounds = max(20, scaled(ROUNDS))
    for _ in range(rounds):
        one_round()
    assert descriptors() == opened
    assert resident() - before < GROWTH
    tally("faults", "rounds of a soak", rounds)

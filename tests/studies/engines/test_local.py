import pytest

from outland.errors import OutlandError
from outland.studies.engines.local import LocalEngine
from outland.studies.run_store import RunStore
from outland.studies.runner import run_study
from tests.studies.cases import ROWS, cells_of, records


@pytest.fixture(scope="module")
def by_hand(motif, cache, tmp_path_factory):
    """Four short runs, one after another in this process."""
    folder = tmp_path_factory.mktemp("by-hand")
    study, cells = cells_of(2, ROWS[:2])
    assert run_study(study, cells, folder, device="cpu", cache=cache).states == {"done": 4}
    return records(folder)


def test_several_processes_give_the_same_records(by_hand, cache, tmp_path, capsys):
    study, cells = cells_of(2, ROWS[:2])
    damaged = cells[0].specs[1]
    (RunStore(study, tmp_path).run_folder(damaged).path / "checkpoints" / "epoch-00001").mkdir(parents=True)
    outcome = run_study(study, cells, tmp_path, device="cpu", cache=cache, engine=LocalEngine(workers=2))
    assert (len(outcome.executed), outcome.states) == (4, {"done": 3, "failed": 1})
    assert "is intact" in outcome.failures[0][2]
    told = capsys.readouterr().err
    assert "ERM/motif-base: no checkpoint" in told
    assert "4 of 4 runs" in told  # seen in the folders of the runs
    wanted = {spec.slug for cell in cells for spec in cell.specs} - {damaged.slug}
    assert records(tmp_path) == {name: by_hand[name] for name in wanted}


def test_workers_need_a_sensible_number(motif, cache, tmp_path):
    study, cells = cells_of(1, ROWS[:1])
    with pytest.raises(OutlandError, match="must be 1 or more, not 0"):
        run_study(study, cells, tmp_path, device="cpu", cache=cache, engine=LocalEngine(workers=0))

"""Record files as one pool that studies share."""

import json

import pytest

from outland.errors import OutlandError
from outland.studies import find_study
from outland.studies.base import Measurement
from outland.studies.record_file import format_line, write_lines
from outland.studies.record_pool import pool_results, read_pool
from outland.studies.transfer import FinishedRun
from tests.studies.cases import made, record, write_records


def scores(row, column, seed):
    """A score for some columns of ERM, of both AIA and of Evidence."""
    wanted = row.label in ("ERM", "AIA (released)", "Evidence") and column.label in ("motif-base", "molbbbp-scaffold")
    return 0.5 + 0.01 * len(row.label) + 0.001 * seed if wanted else None


@pytest.fixture
def file(tmp_path):
    write_records(tmp_path / "covariate.jsonl.xz", made("covariate", scores, seeds=None, newer=True))
    return tmp_path / "covariate.jsonl.xz"


def test_a_study_has_the_runs_of_its_file(file):
    results, pool = made("covariate", scores, seeds=None, newer=True), read_pool([file])
    assert len(pool) == 2 * (20 + 20 + 10)
    read = pool_results(results.study, pool)
    there = {name: {seed: run.test_score for seed, run in runs.items()} for name, runs in results.records.items()}
    assert {name: {seed: run.test_score for seed, run in runs.items()} for name, runs in read.records.items()} == {
        name: scores for name, scores in there.items() if scores
    }


@pytest.mark.parametrize(
    ("study", "cells"),
    [("cost", 4), ("ablation", 4), ("ours", 8), ("backbones", 0), ("correlation", 0)],
)
def test_studies_share_runs(file, study, cells):
    read = pool_results(find_study(study), read_pool([file]))
    assert sum(len(runs) == 10 for runs in read.records.values()) == len(read.records) == cells


def test_a_run_of_two_files_is_one_with_all_measurements(tmp_path):
    study = find_study("shift")
    spec = next(cell for cell in study.cells(1) if cell.name == "FLAG/motif-base").specs[0]
    trained, measured = FinishedRun(spec, record(0.5), {}), Measurement({"aug_train": 0.25})
    write_lines(tmp_path / "a.jsonl.xz", [format_line(trained.to_json())])
    write_lines(tmp_path / "b.jsonl.xz", [format_line(FinishedRun(spec, record(0.5), {"shift": measured}).to_json())])
    pool = read_pool(sorted(tmp_path.glob("*.xz")))
    assert len(pool) == 1
    assert pool_results(study, pool).measurements == {"FLAG/motif-base": {0: measured}}


def test_a_record_of_other_settings_is_named(tmp_path):
    spec = find_study("covariate").cells(1)[0].specs[0]
    line = json.dumps({**FinishedRun(spec, record(0.5), {}).to_json(), "key": "0" * 12})
    write_lines(tmp_path / "a.jsonl.xz", [line])
    with pytest.raises(OutlandError, match=r"a\.jsonl\.xz: run 1 cannot be used: its key is not that of its settings"):
        read_pool([tmp_path / "a.jsonl.xz"])

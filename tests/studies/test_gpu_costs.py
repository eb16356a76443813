"""What runs ask of a GPU."""

import json
from pathlib import Path

import pytest
import torch

from outland.spec import RunSpec
from outland.studies import find_study, gpu_costs
from outland.studies.durations import estimate_seconds
from outland.studies.estimates import run_cost
from outland.studies.gpu_costs import gpu_load
from outland.training.scheduler import CAPACITY

MEASURED = json.loads((Path(__file__).parents[2] / "benchmarks" / "study-h200.json").read_text())


def seconds(only, seeds=None):
    cells = find_study("covariate").cells(seeds, [], only)
    return sum(gpu_load(spec).seconds for cell in cells for spec in cell.specs)


def test_estimates_are_within_a_tenth_of_what_was_measured_on_an_h200():
    molbbbp = [study["wall_s"] for name, study in MEASURED["studies"].items() if name.startswith("molbbbp")]
    assert seconds(["molbbbp"]) == pytest.approx(sum(molbbbp), rel=0.1)
    assert seconds(["ERM/motif-base"]) == pytest.approx(MEASURED["studies"]["ERM/motif-base"]["wall_s"], rel=0.1)


def test_the_runs_of_molhiv_took_what_is_estimated():
    """All methods but those that had run before, seven runs at a time."""
    processes = [study for name, study in MEASURED["studies"].items() if name.startswith("molhiv-scaffold")]
    runs = MEASURED["molhiv_scaffold_runs"]
    assert sum(runs.values()) == 132
    estimate = sum(count * seconds([f"{row}/molhiv-scaffold"], seeds=1) for row, count in runs.items())
    assert estimate == pytest.approx(sum(study["wall_s"] for study in processes), rel=0.1)


def test_the_processes_of_molhiv_by_size_took_what_is_estimated():
    processes = [study for name, study in MEASURED["studies"].items() if name.startswith("molhiv-size")]
    assert sum(study["executed"] for study in processes) == sum(MEASURED["molhiv_size_runs"].values()) == 98
    runs = MEASURED["molhiv_size_runs"].items()
    estimate = sum(count * seconds([f"{row}/molhiv-size"], seeds=1) for row, count in runs)
    assert estimate == pytest.approx(sum(study["wall_s"] for study in processes), rel=0.1)


def test_costs_of_a_dataset_come_before_those_of_a_preset_and_these_before_the_methods(monkeypatch):
    costs = json.loads(json.dumps(gpu_costs._costs()))
    names = ("aia@motif", "aia:paper", "aia")
    costs["methods"] |= {name: {"large": 10.0 * (3 - rank), "scoring": 0.0} for rank, name in enumerate(names)}
    monkeypatch.setattr(gpu_costs, "_costs", lambda: costs)
    specs = RunSpec.make("motif", "aia:paper"), RunSpec.make("cmnist", "aia:paper"), RunSpec.make("cmnist", "aia")
    assert [gpu_costs._method_costs(spec)["large"] for spec in specs] == [30.0, 20.0, 10.0]


def test_a_step_takes_its_part_of_a_run():
    spec = RunSpec.make("motif", "erm", changes={"train": {"epochs": 7}})
    load = gpu_load(spec)
    assert load.step_seconds * 7 * 36 == pytest.approx(load.seconds)  # 18,000 graphs, 512 a batch


def test_a_cost_is_of_the_dataset_where_it_was_measured():
    alone = MEASURED["alone"]
    ratio = alone["GSAT/cmnist-color"]["step_ms"] / alone["ERM/cmnist-color"]["step_ms"]
    steps = seconds(["GSAT/cmnist-color"], 1) / seconds(["ERM/cmnist-color"], 1)
    assert steps == pytest.approx(ratio, rel=0.1)
    assert seconds(["GSAT/motif-base"], 1) / seconds(["ERM/motif-base"], 1) < 0.8 * ratio


def test_as_many_runs_as_the_schedule_admits_are_faster_than_two():
    for name, steps in MEASURED["side by side"].items():
        if name != "about":
            assert sorted(steps.values(), reverse=True) == list(steps.values())
            assert CAPACITY / gpu_load(RunSpec.make(name.split("/")[1].split("-")[0], "erm")).share >= max(
                map(int, steps)
            )
            assert steps["6"] < 0.9 * steps["2"]


def test_every_cell_has_its_measured_step():
    for name, row in MEASURED["steps"].items():
        (cell,) = find_study("covariate").cells(1, [], [name])
        assert gpu_load(cell.specs[0]).seconds == pytest.approx(row["run_s"] + 0.25, rel=0.3), name


def test_rows_since_the_paper_have_their_measured_step():
    for name, row in MEASURED["since the paper"].items():
        spec = RunSpec.make("motif", name.split("/")[0], "base")
        assert gpu_load(spec).seconds == pytest.approx(row["run_s"] + 0.25, rel=0.1), name


def test_other_readouts_take_as_long_as_the_mean():
    mean = MEASURED["readouts"]["pool=mean"]["step_ms"]
    assert all(row["step_ms"] < 1.1 * mean for row in MEASURED["readouts"].values())
    assert len(MEASURED["readouts"]) == 10


def test_other_settings_scale_what_was_measured():
    usual = gpu_load(RunSpec.make("motif", "erm")).seconds - 0.25
    assert gpu_load(RunSpec.make("motif", "erm", changes={"train": {"epochs": 50}})).seconds - 0.25 == usual / 2
    narrow = gpu_load(RunSpec.make("motif", "erm", changes={"backbone": {"width": 150}})).seconds - 0.25
    assert narrow == pytest.approx(usual / 2, rel=0.01)
    assert gpu_load(RunSpec.make("motif", "erm", changes={"data": {"limit": 512}})).seconds - 0.25 < usual / 10


def test_small_batches_use_a_third_of_the_device_and_large_ones_all_of_it():
    shares = [gpu_load(RunSpec.make(name, "erm")).share for name in ("molbbbp", "molhiv", "motif", "cmnist")]
    assert shares == pytest.approx([0.3, 0.675, 0.79, 1.0], abs=0.01)


def test_a_cpu_has_costs_of_its_own():
    spec = RunSpec.make("motif", "erm")
    assert run_cost(torch.device("cpu"))(spec) == estimate_seconds(spec)
    assert run_cost(torch.device("cuda"))(spec) == gpu_load(spec).seconds < estimate_seconds(spec) / 100

from outland.report.cost_page import cost_page
from tests.report.cases import scores
from tests.studies.cases import made


def with_costs(results, seconds, parameters):
    """The results with seconds and parameters by the label of the row."""
    for cell in results.cells:
        label = cell.row.label
        update = {
            "timing": {"seconds": seconds.get(label, 10.0)},
            "parameters": {"total": parameters.get(label, 1_000_000)},
        }
        runs = results.records[cell.name]
        results.records[cell.name] = {seed: run.model_copy(update=update) for seed, run in runs.items()}
    return results


def test_seconds_and_parameters_are_beside_erms_and_the_papers():
    text = cost_page(with_costs(made("cost", scores, seeds=2), {"CAL": 17.0}, {"CAL": 1_400_000}))
    seconds, parameters = text.partition("## Parameters")[::2]
    assert "| ERM | 10.0 (1.0×)<br>*3079 (1.0×)* |" in seconds
    assert "| CAL | 17.0 (1.7×)<br>*5835 (1.9×)* |" in seconds
    assert "| IRM | 10.0 (1.0×) |" in seconds
    assert "| CAL | 1.400 (1.4×)<br>*2.213 (1.5×)* |" in parameters
    assert "All 126 cells are there, 252 runs." in text


def test_rows_since_the_paper_have_a_line_once_there_are_runs_of_them():
    def some(row, column, seed):
        return None if row.group and (row.label != "Evidence" or "motif" not in column.label) else 0.5

    results = with_costs(made("cost", some, seeds=2, newer=True), {"Evidence": 12.0}, {})
    text = cost_page(results.with_begun_rows())
    assert "| Evidence | 12.0 (1.2×) | 12.0 (1.2×) | – |" in text
    assert "All 126 cells are there, 252 runs. Of methods since the paper there are Evidence (4 runs)." in text
    assert "LECI" not in text


def test_only_columns_with_runs_have_a_place():
    results = made("cost", scores, seeds=2)
    results.records = {name: runs for name, runs in results.records.items() if "motif-base" in name}
    text = cost_page(results)
    assert "|  | motif-base |\n" in text
    assert "18 of 126 cells are there so far, 36 of 252 runs: all rows of motif-base." in text
    results.records = {}
    assert "Seconds a run" not in cost_page(results)


def test_seconds_of_few_runs_on_another_device_are_left_out():
    results = with_costs(made("cost", scores, seeds=3), {"CAL": 17.0}, {})
    assert "left out" not in cost_page(results)
    for runs in results.records.values():
        for seed, run in runs.items():
            runs[seed] = run.model_copy(update={"platform": {**run.platform, "device": "NVIDIA H200"}})
    slow = results.records["CAL/motif-base"]
    update = {"timing": {"seconds": 300.0}, "parameters": {"total": 2_000_000}}
    slow[2] = slow[2].model_copy(update={"platform": {**slow[2].platform, "device": "cpu"}, **update})
    text = cost_page(results)
    seconds, parameters = text.partition("## Parameters")[::2]
    assert "on NVIDIA H200 (377 runs) and a CPU (1 run);" in " ".join(seconds.split())
    assert "Runs on a CPU are left out." in " ".join(seconds.split())
    assert "| CAL | 17.0 (1.7×)<br>" in seconds
    assert "| CAL | 1.333 (1.3×)<br>" in parameters

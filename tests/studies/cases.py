"""Small studies that several tests share."""

from types import SimpleNamespace

from outland.studies import find_study
from outland.studies.record_file import format_line, write_lines
from outland.studies.results import Results
from outland.studies.transfer import FinishedRun
from outland.training import RunRecord

TINY = ["train.epochs=2", "data.limit=48", "backbone.width=8"]
SETS = [part for word in TINY for part in ("--set", word)]
ROWS = ["ERM/motif-base", "IRM/motif-base", "GroupDRO/motif-base", "VREx/motif-base"]


def cells_of(seeds: int, rows=ROWS, words=TINY):
    """Cells of the study of covariate shift."""
    study = find_study("covariate")
    return study, study.cells(seeds, words, rows)


def ablation_cells(*only: str, words=TINY):
    """Cells of one seed of the study of ablations."""
    study = find_study("ablation")
    return study, study.cells(1, words, only)


def records(folder):
    """Every record by its folder, without what differs between equal runs."""
    found = {}
    for path in (folder / "runs").glob("*/record.json"):
        record = RunRecord.read(path)
        found[path.parent.name] = (record.key, record.spec, record.curves, record.selection, record.platform)
    return found


SEARCHED = {"train": {"epochs": 10}, "data": {"limit": 48}, "backbone": {"width": 8}}


def fake_run(score):
    """In the place of training: ten epochs of scores that depend on the settings; there is no test part to look at."""

    def run(spec, out, callback, **rest):
        curves = [{"epoch": e, "val": {"accuracy": score(spec.method_params, e)}, "loss": {}} for e in range(10)]
        for row in curves:
            callback.on_epoch_end(row, "accuracy")
        best = max(row["val"]["accuracy"] for row in curves)
        return SimpleNamespace(
            selection={"ood_val": {"val": best}}, selected="ood_val", metric="accuracy", curves=curves
        )

    return run


def record(score: float, metric: str = "accuracy", **rest) -> RunRecord:
    """A record with a test score, and nothing else of interest."""
    plain = {
        "key": "",
        "spec": {},
        "metric": metric,
        "data": {},
        "curves": [
            {"epoch": epoch, "val": {metric: score - 0.1}, "test": {metric: score - 0.02 * (3 - epoch)}}
            for epoch in range(4)
        ],
        "selection": {"ood_val": {"epoch": 3, "test": score}},
        "selected": "ood_val",
        "masks": {},
        "parameters": {"total": 1_500_000},
        "platform": {"device": "cpu", "torch": "2", "python": "3", "outland": "0"},
        "timing": {"seconds": 60.0},
    }
    return RunRecord(**{**plain, **rest})


def made(name: str, scores, seeds: int | None = 10, words=(), newer: bool = False, **rest) -> Results:
    """Results of a study with a score for every (row, column, seed); without `seeds`, as many as it has by default."""
    study = find_study(name).with_newer() if newer else find_study(name)
    results = Results(study, study.cells(seeds), words)
    for cell in results.cells:
        found = {place: scores(cell.row, cell.column, place) for place in range(len(cell.specs))}
        results.records[cell.name] = {place: record(s, **rest) for place, s in found.items() if s is not None}
    return results


def write_records(path, results: Results) -> None:
    """The file of records that an export of these results would give."""
    runs = [
        FinishedRun(cell.specs[index], record, {})
        for cell in results.cells
        for index, record in results.records.get(cell.name, {}).items()
    ]
    write_lines(path, [format_line(run.to_json()) for run in runs])

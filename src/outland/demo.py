"""The demonstration: ERM, AIA and Evidence side by side on small cuts of Motif, and a picture of where they look."""

from pathlib import Path

import torch
from rich.table import Table

from outland.graphs import Cache
from outland.methods import Method
from outland.models import load_model
from outland.models.messages import format_score
from outland.progress import screen
from outland.report.drawing import draw_masks
from outland.training import RunRecord, RunSpec, prepare, run
from outland.training.callbacks import progress_callback
from outland.training.run_folder import RunFolder

# Small enough for two cores and three minutes; the paper's setting is 18,000 graphs, width 300, 100 epochs. The graphs
# are drawn anew: those of the published test part are for results.
_SETTINGS = [
    "data.limit=1200",
    "data.seed=7",
    "backbone.width=64",
    "backbone.dropout=0.1",
    "train.epochs=16",
    "train.batch_size=64",
    "train.checkpoint_every=8",
]
_LABELS = {"erm": "ERM", "aia": "AIA", "evidence": "Evidence"}
_INTRODUCTION = (
    "Motif: every graph is a base joined to a motif (house, cycle or crane), which decides the label, but one label in "
    "ten is drawn at random. Training shows small bases; validation is on larger ones and test on the largest, which "
    "training never shows.\n"
)


def demo(out: Path, seed: int, cache: Cache | None = None) -> Path:
    """Train each method, resuming what was interrupted; print a comparison, and return the path of the picture."""
    torch.set_num_threads(1)  # tensors this small gain nothing from a second thread, and lose much on a busy machine
    shown = screen()
    shown.print(_INTRODUCTION)
    specs = {method: RunSpec.from_words("motif", method, _SETTINGS, domain="size", seed=seed) for method in _LABELS}
    folders = {method: RunFolder(out, spec) for method, spec in specs.items()}
    records = {}
    for method, spec in specs.items():
        finished = folders[method].record_path.exists()
        records[method] = run(spec, out, resume=not finished, force=finished, cache=cache, callback=progress_callback())
    shown.print(_table(records))
    shown.print(_comparison(records))
    picture = out / "masks.png"
    methods = {_LABELS[name]: load_model(folders[name].path).method for name in ("aia", "evidence")}
    _draw({label: method for label, method in methods.items() if method}, specs["aia"], picture, cache)
    shown.print(f"Picture of what they look at, in three graphs of validation: {picture}")
    return picture


def _table(records: dict[str, RunRecord]) -> Table:
    columns = ("sizes of training", "larger (validation)", "largest (test)", "seconds")
    table = Table("", *columns, title="Accuracy in %")
    for method, record in records.items():
        selection = record.selection[record.selected]
        scores = [format_score(selection[part], record.metric) for part in ("id_test", "val", "test")]
        table.add_row(_LABELS[method], *scores, f"{record.timing['seconds']:.0f}")
    return table


def _comparison(records: dict[str, RunRecord]) -> str:
    scores = {_LABELS[method]: 100 * record.test_score for method, record in records.items()}
    ranking = sorted(scores, key=lambda label: -scores[label])
    others = " and ".join(f"{label} {scores[label]:.1f}" for label in ranking[1:])
    return (
        f"On the largest graphs {ranking[0]} did best this time: {scores[ranking[0]]:.1f}, {others}. One seed on a "
        "small cut proves nothing: docs/results.md has all three in the full setting, docs/ours.md more of Evidence."
    )


def _draw(methods: dict[str, Method], spec: RunSpec, picture: Path, cache: Cache | None) -> None:
    """Draw a graph of each class from the validation part: those of the test part are large for a picture."""
    _, splits = prepare(spec, torch.device("cpu"), cache)
    val = splits["val"]
    labels, motifs = splits.graphs.y[val].flatten(), splits.graphs.extra["motif"][val]
    is_class = [(labels == label) & (motifs == label) for label in range(splits.schema.task.outputs)]
    index = torch.stack([val[rows][0] for rows in is_class])  # no label that was drawn at random
    draw_masks(methods, splits, index, picture)

"""Six collections without a shift, in ten folds."""

from outland.studies.axes import rows
from outland.studies.base import Column, Study
from outland.studies.quantities import LAST, TEST

_SETS = ("MUTAG", "NCI1", "PROTEINS", "COLLAB", "IMDB-BINARY", "IMDB-MULTI")

STUDY = Study(
    name="tu",
    title="Six collections without a shift",
    question="What does robustness cost, or bring, where test graphs are like training graphs?",
    rows=rows("ERM", "CAL", "DropEdge", "FLAG", "M-Mixup", "AIA"),
    columns=tuple(Column(label, label.lower(), kind="none") for label in _SETS),
    repeats="folds",
    quantities=(TEST, LAST),
    paper="tu",
    figures=("ranks", "learning"),
    note="Ten stratified folds: one tests, the next validates, eight train; nothing is chosen by test accuracy. CAL's "
    "code, whose protocol the paper follows, trains on nine folds and reports the epoch whose test accuracy is best on "
    "average over them, which no honest number can be held against; the last epoch's is beside ours. Folds share "
    "training graphs, so tests over them see differences a little too easily.",
)

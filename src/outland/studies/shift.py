"""How far augmentations carry the training graphs, and how near to the test graphs."""

from dataclasses import replace

from outland.studies.axes import columns, rows
from outland.studies.base import Row, Study
from outland.studies.measures import measure_augmentation
from outland.studies.quantities import Quantity

_DROPEDGE, _FLAG, _GMIXUP, _EERM, _AIA = rows("DropEdge", "FLAG", "G-Mixup", "EERM", "AIA")

STUDY = Study(
    name="shift",
    title="How far augmentation carries the data",
    question="How large is the graph covariate shift from augmented to training graphs, and to test graphs?",
    rows=(
        Row("Original", "erm", trained=False),
        replace(_DROPEDGE, trained=False),
        _FLAG,
        replace(_GMIXUP, trained=False),
        _EERM,
        _AIA,
    ),
    columns=columns("motif-base", "motif-size", "cmnist-color", "molbbbp-scaffold"),
    reference="Original",
    quantities=(
        Quantity("aug_train", "GCS to the training graphs", digits=3, sign=0),
        Quantity("aug_test", "GCS to the test graphs", digits=3, sign=-1),
        Quantity("aug_train_mean", "GCS to the training graphs, by mean pooling", digits=3, sign=0),
        Quantity("aug_test_mean", "GCS to the test graphs, by mean pooling", digits=3, sign=-1),
    ),
    paper="gcs",
    measure=measure_augmentation,
    figures=("bars",),
    note="Original to training graphs is the estimate's own null value, from the training graphs beside themselves; "
    "the paper prints 0 by definition. Our domain classifier pools by sums and is given the label, so that sizes and "
    "labels do not hide a shift; that of mean pooling, a linear head and no label reads like the paper's. EERM, which "
    "makes environments too, is not in the paper's table.",
)

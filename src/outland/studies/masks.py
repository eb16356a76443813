"""How well each masking method finds the part that the label rests on."""

from outland.methods import find_method
from outland.studies.axes import NEWER, columns, rows
from outland.studies.base import Row, Study
from outland.studies.quantities import MASK_PRECISION, MASK_ROCAUC, TEST

STUDY = Study(
    name="masks",
    title="Do masks find the truth?",
    question="How well do the edge scores of each masking method rank the true motif above the base?",
    rows=(
        *rows("DIR", "CAL", "GSAT", "CIGA", "DisC", "GREA", "AIA"),
        Row("w/o Adv", "aia:no-adversary"),
        Row("RDIA", "aia:rdia"),
    ),
    newer=tuple(row for row in NEWER if find_method(row.method).has_masks),
    columns=columns("motif-base", "motif-size"),
    reference="",
    quantities=(MASK_ROCAUC, MASK_PRECISION, TEST),
    figures=("bars", "masks"),
    note="Against Motif's ground truth, on test graphs; 0.5 is a mask that knows nothing.",
)

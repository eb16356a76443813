"""Table 1: seventeen methods under seven covariate shifts, AIA in both of its readings."""

from outland.studies.axes import AUGMENTATIONS, BOTH_AIA, COVARIATE, OBJECTIVES, columns, rows
from outland.studies.base import Study

STUDY = Study(
    name="covariate",
    title="Seventeen methods under covariate shift",
    question="Which method's test score holds up where the environments of the test graphs are new?",
    rows=(*rows(*OBJECTIVES, *AUGMENTATIONS), *BOTH_AIA),
    columns=columns(*COVARIATE),
    paper="covariate_shift",
    figures=("ranks", "learning"),
    note="AIA is there as its public code has it and as its paper has it; the paper's number is beside both. DIR is "
    "GOOD's and DisC that of its code (see docs/protocol.md).",
)

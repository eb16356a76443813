"""Table 1: seventeen methods under seven covariate shifts."""

from outland.studies.axes import AUGMENTATIONS, COVARIATE, OBJECTIVES, columns, rows
from outland.studies.base import Study

STUDY = Study(
    name="covariate",
    title="Seventeen methods under covariate shift",
    question="Which method's test score holds up where the environments of the test graphs are new?",
    rows=rows(*OBJECTIVES, *AUGMENTATIONS),
    columns=columns(*COVARIATE),
    paper="covariate_shift",
    figures=("ranks", "learning"),
)

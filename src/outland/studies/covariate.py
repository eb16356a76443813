"""Table 1: seventeen methods under seven covariate shifts."""

from outland.studies.base import Study
from outland.studies.tables import COVARIATE, METHODS, columns, rows

STUDY = Study(
    name="covariate",
    title="Seventeen methods under covariate shift",
    question="Which method's test score holds up where the environments of the test graphs are new?",
    rows=rows(*METHODS),
    columns=columns(*COVARIATE),
    paper="covariate_shift",
    figures=("ranks", "learning"),
)

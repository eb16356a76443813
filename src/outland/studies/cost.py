"""What methods cost in time and size, and what they bring."""

from outland.studies.axes import BOTH_AIA, COVARIATE, columns, rows
from outland.studies.base import Study
from outland.studies.quantities import IMPROVEMENT, PARAMETERS, SECONDS

STUDY = Study(
    name="cost",
    title="Time, size and improvement",
    question="What do CAL, DIR and AIA cost beside ERM, and what do they bring?",
    rows=(*rows("ERM", "CAL", "DIR"), *BOTH_AIA),
    columns=columns(*COVARIATE),
    quantities=(IMPROVEMENT, SECONDS, PARAMETERS),
    paper="cost",
    figures=("bars",),
    note="The runs are those of the study covariate. The paper's times are from an RTX 3090 and may count ten runs.",
)

"""What methods cost in time and size, and what they bring."""

from outland.studies.axes import AUGMENTATIONS, BOTH_AIA, COVARIATE, NEWER, OBJECTIVES, columns, rows
from outland.studies.base import Study
from outland.studies.quantities import IMPROVEMENT, PARAMETERS, SECONDS

STUDY = Study(
    name="cost",
    title="Time, size and improvement",
    question="What does each method cost beside ERM, in time and in size, and what does it bring?",
    rows=(*rows(*OBJECTIVES, *AUGMENTATIONS), *BOTH_AIA),
    newer=NEWER,
    columns=columns(*COVARIATE),
    quantities=(IMPROVEMENT, SECONDS, PARAMETERS),
    paper="cost",
    figures=("bars",),
    note="The runs are those of the study covariate. The paper has ERM, CAL, DIR and AIA; its times are of an RTX "
    "3090 and may count ten runs. Ours are of the device, divided among the runs that share it, and depend on how "
    "well these fill it: they are not tested.",
)

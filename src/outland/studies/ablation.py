"""What the two halves of AIA are worth, alone and together."""

from outland.studies.axes import columns, rows
from outland.studies.base import Row, Study

STUDY = Study(
    name="ablation",
    title="What each part of AIA is worth",
    question="Does AIA do worse without its adversary, without its stable part, or with random masks for an adversary?",
    rows=(
        *rows("ERM"),
        Row("w/o Adv", "aia:no-adversary"),
        Row("w/o Sta", "aia:no-stable"),
        Row("RDIA", "aia:rdia"),
        *rows("AIA"),
    ),
    columns=columns("motif-base", "cmnist-color", "molbbbp-scaffold", "molhiv-size"),
    figures=("bars", "learning"),
    note="The paper shows this as a picture without numbers; ERM's and AIA's are those of the covariate table. "
    "The datasets are those its public code has commands for.",
)

"""What each part of Evidence is worth."""

from dataclasses import replace

from outland.studies.axes import EVIDENCE, columns, rows
from outland.studies.base import Row, Study

_MAXIMUM = {"backbone": {"pool": "max"}}

STUDY = Study(
    name="ours",
    title="What each part of Evidence is worth",
    question="Does Evidence do worse without its gate, its layer, its maximum, its thinned graphs or its bare ones?",
    rows=(
        *rows("ERM"),
        Row("ERM, maximum", "erm", _MAXIMUM),
        Row("DropEdge, maximum", "dropedge", _MAXIMUM),
        Row("w/o gate", "evidence", {"method": {"gate": False}}),
        Row("w/o layer", "evidence", {"method": {"layer": False}}),
        Row("w/o maximum", "evidence", {"method": {"readout": "mean"}}),
        Row("w/o thinning", "evidence", {"method": {"whole": 1.0}}),
        Row("w/o bare graphs", "evidence", {"method": {"bare": 0.0}}),
        replace(EVIDENCE, group=""),  # beside the others: the best of all is marked
    ),
    columns=columns("motif-base", "motif-size", "molbbbp-scaffold"),
    figures=("bars", "learning"),
    note="Without a maximum the readout is the mean that all other methods have. The runs of ERM and of Evidence are "
    "those of the covariate table.",
)

"""How much augmented versions of a graph vary, in its environment and in its stable part."""

from dataclasses import replace

from outland.studies.axes import columns, rows
from outland.studies.base import Study
from outland.studies.measures import measure_diversity
from outland.studies.quantities import Quantity

STUDY = Study(
    name="diversity",
    title="Diversity of augmentations",
    question="Does augmentation vary the environment of a graph more than the part that its label rests on?",
    rows=tuple(replace(row, trained=False) for row in rows("DropEdge", "AIA")),
    columns=columns("motif-base"),
    reference="",
    quantities=(
        Quantity("full", "whole graph", digits=3, sign=0),
        Quantity("env", "environment", digits=3, sign=1),
        Quantity("stable", "stable part", digits=3, sign=-1),
        Quantity("node_full", "whole graph, nodes", digits=3, sign=0),
        Quantity("node_env", "environment, nodes", digits=3, sign=1),
        Quantity("node_stable", "stable part, nodes", digits=3, sign=-1),
    ),
    paper="diversity",
    measure=measure_diversity,
    measure_trains=True,
    figures=("bars", "augmented"),
    note="AIA's masks follow from its weights, so their variation is variation over the time of training, from the "
    "first epoch to the last. Masks are read without dropout. The first three quantities are of "
    "edge masks; DropEdge masks no nodes.",
)

"""Rows and columns that several studies share, by the labels of the paper."""

from outland.studies.base import Column, Row

OBJECTIVES = ("ERM", "IRM", "GroupDRO", "VREx", "DIR", "CAL", "GSAT", "OOD-GNN", "StableGNN", "CIGA", "DisC")
AUGMENTATIONS = ("DropEdge", "GREA", "FLAG", "M-Mixup", "G-Mixup")

# Of methods with several readings, the one that other numbers of its row come from: GOOD's configuration of DIR, DisC's
# code, with whose defaults the paper ran its rivals, and AIA's own, which gives the paper's scores.
_PRESETS = {"DIR": "good", "DisC": "released", "AIA": "released"}
# In the main tables both readings of AIA stand beside the paper's number.
BOTH_AIA = (Row("AIA (released)", "aia:released", paper="AIA"), Row("AIA (paper)", "aia:paper", paper="AIA"))

OUR_OWN = "ours"  # group of rows
EVIDENCE = Row("Evidence", "evidence", group=OUR_OWN)

# Methods since the paper, our own among them, and ERM with the readout that alone makes PrunE independent of size.
_SINCE = "since the paper"
NEWER = (
    Row("PrunE", "prune", group=_SINCE),
    Row("ERM + unit readout", "erm", {"backbone": {"pool": "sum", "unit_readout": True}}, _SINCE),
    Row("LECI", "leci", group=_SINCE),
    Row("LECI + virtual node", "leci", {"backbone": {"virtual_node": True}}, _SINCE),
    Row("iMoLD", "imold", group=_SINCE),
    Row("GALA", "gala", group=_SINCE),
    EVIDENCE,
)


def rows(*labels: str) -> tuple[Row, ...]:
    """Rows of the methods with these labels, which are their names in the paper's capitals."""
    presets = {label: f":{preset}" for label, preset in _PRESETS.items()}
    return tuple(Row(label, label.lower() + presets.get(label, "")) for label in labels)


_SEEDS = {"cmnist": 3}  # by dataset: its graphs are the largest, and its runs by far the longest


def columns(*labels: str, kind: str = "covariate") -> tuple[Column, ...]:
    """Columns of datasets, labelled `dataset-domain`."""
    pairs = [(label, *label.split("-")) for label in labels]
    return tuple(Column(label, dataset, domain, kind, _SEEDS.get(dataset)) for label, dataset, domain in pairs)


COVARIATE = (
    "motif-base",
    "motif-size",
    "cmnist-color",
    "molbbbp-scaffold",
    "molbbbp-size",
    "molhiv-scaffold",
    "molhiv-size",
)

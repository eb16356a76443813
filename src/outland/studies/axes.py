"""Rows and columns that several studies share, by the labels of the paper."""

from outland.studies.base import Column, Row

METHOD_NAMES = {
    "ERM": "erm",
    "IRM": "irm",
    "GroupDRO": "groupdro",
    "VREx": "vrex",
    "DIR": "dir",
    "CAL": "cal",
    "GSAT": "gsat",
    "OOD-GNN": "ood-gnn",
    "StableGNN": "stablegnn",
    "CIGA": "ciga",
    "DisC": "disc",
    "DropEdge": "dropedge",
    "GREA": "grea",
    "FLAG": "flag",
    "M-Mixup": "m-mixup",
    "G-Mixup": "g-mixup",
    "AIA": "aia",
}


def rows(*labels: str) -> tuple[Row, ...]:
    """Rows of the methods with these labels."""
    return tuple(Row(label, METHOD_NAMES[label]) for label in labels)


def columns(*labels: str, kind: str = "covariate") -> tuple[Column, ...]:
    """Columns of datasets, labelled `dataset-domain`."""
    pairs = [(label, *label.split("-")) for label in labels]
    return tuple(Column(label, dataset, domain, kind) for label, dataset, domain in pairs)


COVARIATE = (
    "motif-base",
    "motif-size",
    "cmnist-color",
    "molbbbp-scaffold",
    "molbbbp-size",
    "molhiv-scaffold",
    "molhiv-size",
)

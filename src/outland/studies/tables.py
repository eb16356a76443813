"""Rows and columns that several studies share, named as the paper names them."""

from outland.studies.base import Column, Row

METHODS = {
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
    """Methods by the paper's names."""
    return tuple(Row(label, METHODS[label]) for label in labels)


def columns(*labels: str, kind: str = "covariate") -> tuple[Column, ...]:
    """Datasets as `dataset-domain`."""
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

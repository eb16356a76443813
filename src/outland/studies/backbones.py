"""Four methods on three other backbones."""

from dataclasses import replace

from outland.studies.axes import columns, rows
from outland.studies.base import Row, Study


def _on(kind: str) -> tuple[Row, ...]:
    changes = {"backbone": {"kind": kind.lower()}}
    return tuple(replace(row, changes=changes, group=kind) for row in rows("ERM", "M-Mixup", "FLAG", "AIA"))


STUDY = Study(
    name="backbones",
    title="Four methods on other backbones",
    question="Do the methods compare in the same way on GCN, GCNII and GAT?",
    rows=(*_on("GCN"), *_on("GCNII"), *_on("GAT")),
    columns=columns("motif-base", "motif-size", "molbbbp-scaffold", "molbbbp-size"),
    paper="backbones",
    figures=("bars", "learning"),
)

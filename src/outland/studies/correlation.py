"""Ten methods under correlation shift, which GOOD calls concept shift."""

from outland.studies.axes import BOTH_AIA, columns, rows
from outland.studies.base import Study

STUDY = Study(
    name="correlation",
    title="Ten methods under correlation shift",
    question="Which method's test score holds up where a habit of the training graphs turns round?",
    rows=(*rows("ERM", "IRM", "VREx", "DIR", "CAL", "OOD-GNN", "DropEdge", "FLAG", "M-Mixup"), *BOTH_AIA),
    columns=columns("motif-base", "cmnist-color", "molhiv-size", kind="concept"),
    paper="correlation_shift",
    figures=("ranks", "learning"),
)

"""The paper's tables and figures as declarations, one short file each; the runs behind them, and what they show."""

from importlib import import_module

from outland.errors import unknown
from outland.studies.base import Cell, Column, Row, Study

# A study is the module of its name.
STUDIES = (
    "covariate",
    "correlation",
    "shift",
    "diversity",
    "ablation",
    "sensitivity",
    "backbones",
    "tu",
    "cost",
    "masks",
    "ours",
)


def find_study(name: str) -> Study:
    """The study of that name."""
    if name not in STUDIES:
        raise unknown("study", name, [*STUDIES, "list", "export", "import"])
    study: Study = import_module(f"outland.studies.{name}").STUDY
    return study

"""The study of the contributors' guide is a study."""

import re
from pathlib import Path

from outland.studies.base import Study

GUIDE = Path(__file__).parents[2] / "CONTRIBUTING.md"


def test_the_guides_study_expands():
    block = re.search(r"```python\n(from outland\.studies\.base.*?)```", GUIDE.read_text(), re.S)
    names: dict = {}
    exec(block.group(1), names)
    study = names["STUDY"]
    assert isinstance(study, Study)
    cells = study.cells(2)
    assert len(cells) == 8
    assert cells[2].specs[0].method_params.drop == 0.05

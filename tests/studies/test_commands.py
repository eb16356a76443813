import shlex

import pytest

from outland.studies import find_study
from outland.studies.commands import cell_command
from outland.training import RunSpec
from tests.studies.cases import TINY


@pytest.mark.parametrize("cell", ["VREx/motif-base", "AIA (paper)/molbbbp-size"])
def test_the_command_of_a_cell_is_exact(cell):
    study = find_study("covariate")
    (found,) = study.cells(3, TINY, [cell])
    words = shlex.split(cell_command(study, found, TINY))
    assert words[:2] == ["outland", "train"]
    options = dict(zip(words[3::2], words[4::2], strict=True))
    sets = [value for name, value in zip(words[3::2], words[4::2], strict=True) if name == "--set"]
    spec = RunSpec.from_words(words[2], options["--method"], sets, domain=options["--domain"], kind=options["--kind"])
    assert spec == found.specs[0]
    assert options["--seeds"] == "3"


def test_a_cell_can_be_reproduced_by_its_command(motif, outland, tmp_path):
    study = find_study("backbones")
    (cell,) = study.cells(2, TINY, ["GAT AIA/motif-base"])
    words = shlex.split(cell_command(study, cell, TINY))
    assert outland(*words[1:], "--device", "cpu")[0] == 0
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {spec.slug for spec in cell.specs}

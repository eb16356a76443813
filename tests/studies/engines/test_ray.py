import sys

import pytest

from outland.errors import OutlandError
from outland.studies.engines.ray import RayEngine
from outland.studies.runner import run_study
from tests.studies.cases import ROWS, cells_of


def test_without_ray_its_engine_says_what_to_install(motif, cache, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    study, cells = cells_of(1, ROWS[:1])
    with pytest.raises(OutlandError, match=r"pip install 'outland\[ray\]'"):
        run_study(study, cells, tmp_path, device="cpu", cache=cache, engine=RayEngine())


def test_a_cluster_that_does_not_answer_is_a_sentence(motif, cache, tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'outland[ray]'")
    study, cells = cells_of(1, ROWS[:1])
    with pytest.raises(OutlandError, match="cannot reach a Ray cluster at 127"):
        run_study(study, cells, tmp_path, device="cpu", cache=cache, engine=RayEngine(address="127.0.0.1:1"))

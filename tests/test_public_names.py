"""`import outland` offers the public names, and imports nothing until one is asked for."""

import subprocess
import sys

import outland

CLASSES = ["GraphClassifier", "GraphRegressor", "Method", "RunSpec", "ShiftSettings", "TrainedModel"]
FUNCTIONS = ["evaluate_models", "find_study", "fit", "load_model", "load_splits", "measure_shift", "run", "save_model"]


def test_every_public_name_can_be_imported():
    assert {*CLASSES, *FUNCTIONS} <= set(dir(outland))
    for name in [*CLASSES, *FUNCTIONS]:
        assert getattr(outland, name).__name__ == name
    assert not hasattr(outland, "nothing")


def test_the_package_and_its_help_import_no_torch():
    code = "import sys, outland, outland.cli; sys.exit('torch' in sys.modules or 'pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

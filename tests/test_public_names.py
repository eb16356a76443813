"""`import outland` offers the public names, and imports nothing until one is asked for."""

import subprocess
import sys

import outland


def test_every_public_name_can_be_imported():
    for name in outland.__all__:
        assert getattr(outland, name).__name__ == name
    assert set(outland.__all__) <= set(dir(outland))
    assert not hasattr(outland, "nothing")


def test_the_package_and_its_help_import_no_torch():
    code = "import sys, outland, outland.cli; sys.exit('torch' in sys.modules or 'pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

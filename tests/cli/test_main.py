"""The command line as a whole."""

import subprocess
import sys

import pytest

from outland.demo import _LABELS


def test_help_needs_no_heavy_import():
    heavy = ("torch", "torch_geometric", "numpy", "matplotlib")
    code = f"import sys, outland.cli; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_module_runs_as_a_command():
    command = [sys.executable, "-m", "outland", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Graph classification that holds up" in done.stdout


def test_the_demonstrations_help_names_what_it_trains(outland):
    text = outland("demo", "--help").stdout
    assert all(name in text for name in _LABELS.values())


def test_version(outland):
    from outland import __version__

    assert outland("--version").stdout.strip() == f"outland {__version__}"


@pytest.mark.parametrize(
    ("words", "sentences"),
    [
        (["trian"], ["'trian'", "Valid commands: ", "train"]),
        (["list", "method"], ["unknown list 'method'", "Did you mean 'methods'?"]),
    ],
)
def test_mistakes_get_a_sentence_and_status_2(outland, words, sentences):
    done = outland(*words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert all(sentence in done.stderr for sentence in sentences)

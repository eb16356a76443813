"""The command line, called in the tests' own process, and as on a machine with few packages."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from outland.cli import main
from tests.cli.cases import ROOT


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def outland(cache, tmp_path, monkeypatch, capsys, quick_fit):
    """The command line, in this process: starting another for every call would cost seconds of imports each."""
    monkeypatch.setenv("OUTLAND_CACHE", str(cache.folder))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["outland", *words])
        with pytest.raises(SystemExit) as end:
            main()
        captured = capsys.readouterr()
        return Done(end.value.code or 0, captured.out, captured.err)

    return call


@pytest.fixture
def bare(tmp_path):
    """Commands, in one process, on a machine without RDKit, other packages and raw files; imports are in `modules`."""

    def call(*commands: list[str], cache: Path = tmp_path / "bare-cache") -> list[Done]:
        folders = {"OUTLAND_CACHE": str(cache), "OUTLAND_DATA": str(tmp_path / "nothing")}
        environment = {**os.environ, **folders, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}", "COLUMNS": "200"}
        words = [sys.executable, "-m", "tests.cli.bare_machine", str(tmp_path), json.dumps(commands)]
        subprocess.run(words, cwd=tmp_path, env=environment, check=True)
        return [Done(**done) for done in json.loads((tmp_path / "done.json").read_text())]

    return call

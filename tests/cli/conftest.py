"""The command line, called in the tests' own process."""

import sys
from dataclasses import dataclass

import pytest

from outland.cli import main


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def outland(cache, tmp_path, monkeypatch, capsys):
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

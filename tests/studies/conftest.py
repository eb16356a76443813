"""The command line, in this process; Optuna."""

import sys

import pytest

from outland.cli import main


@pytest.fixture
def outland(cache, tmp_path, monkeypatch, capsys):
    """Exit status, output and errors of a command."""
    monkeypatch.setenv("OUTLAND_CACHE", str(cache.folder))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)

    def call(*words: str):
        monkeypatch.setattr(sys, "argv", ["outland", *words])
        with pytest.raises(SystemExit) as end:
            main()
        captured = capsys.readouterr()
        return end.value.code or 0, captured.out, captured.err

    return call


@pytest.fixture
def optuna():
    pytest.importorskip("optuna", reason="Optuna is not installed: pip install 'outland[tune]'")

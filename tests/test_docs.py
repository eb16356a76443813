"""The documentation builds as a site without a warning, and every method is on its page."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from outland.methods import METHODS

DOCS = Path(__file__).parents[1] / "docs"


def require_sphinx():
    """Skip a test where Sphinx is missing; a machine that sets `CI` is there to build the site, and fails."""
    if importlib.util.find_spec("sphinx") is None:
        stop = pytest.fail if os.environ.get("CI") else pytest.skip
        stop("Sphinx is not installed: the site is not built")


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_a_machine_for_checks_has_sphinx(monkeypatch, ci, outcome):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="Sphinx is not installed"):
        require_sphinx()


def test_the_site_builds_without_a_warning(tmp_path):
    require_sphinx()
    words = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html", str(DOCS), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = {path.stem for path in tmp_path.glob("*.html")}
    assert {"index", "quickstart", "extending", *(path.stem for path in DOCS.glob("*.md"))} <= pages
    methods = (tmp_path / "methods.html").read_text()
    assert all(f'id="{name}"' in methods for name in METHODS)
    assert "lambda_s" in methods

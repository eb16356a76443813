"""Scores of made-up studies, and a browser that opens pages."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from outland.models.summary import Interval, PartScore

# Around every probe: what it has `seen` is left in the page, for us to read.
ANSWER = """
<script>
{probe}
const answer = document.createElement("pre");
answer.id = "answer";
answer.textContent = JSON.stringify(seen);
document.body.append(answer);
</script>
"""


def scores(row, column, seed):
    return 0.6 + (0.05 if row.label in ("AIA", "AIA (released)") else 0.0) + 0.001 * seed


def chance_score(target: str = "y") -> PartScore:
    """A score that may be a guess: one half lies in its interval."""
    interval = Interval(value=0.55, low=0.4, high=0.7)
    return PartScore(part="test", target=target, metric="rocauc", rows=99, groups=50, rare=40, score=interval)


def browser() -> str:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    path = os.environ.get("CHROME") or next((path for name in names if (path := shutil.which(name))), None)
    if path is None:
        pytest.skip("there is no Chromium here: install it, or set CHROME to one")
    return path


def opened(text: str, folder: Path, probe: str) -> tuple[dict, str]:
    """What the probe saw, and what the browser said on its console."""
    path = folder / "page.html"
    path.write_text(text.replace("</body>", ANSWER.replace("{probe}", probe) + "</body>"))
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1200,900"]
    words += [f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr", "--dump-dom", path.as_uri()]
    done = subprocess.run([browser(), *words], capture_output=True, text=True, timeout=60, check=True)
    answer = re.search(r'<pre id="answer">(.*?)</pre>', done.stdout, re.S)
    console = "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)
    assert answer or console, done.stderr
    seen = json.loads(answer.group(1).replace("&gt;", ">").replace("&lt;", "<")) if answer else {}
    return seen, console

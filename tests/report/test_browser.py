"""The page of a study, opened in a real browser."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from outland.report.study_page import page
from outland.studies.base import Measurement
from tests.studies.test_results import made

# What a reader does, and what they then see; the answer is left in the page for us to read.
PROBE = """
const table = document.querySelector("table.matrix");
const firsts = () => [...table.tBodies[0].rows].map((row) => row.cells[0].textContent);
const click = (place) => {
  const heading = table.tHead.rows[0].cells[place];
  heading.querySelector("button").click();
  return [heading.getAttribute("aria-sort"), ...firsts()];
};
const seen = { before: firsts(), number: click(1), again: click(1), name: click(0) };
seen.drawn = Object.fromEntries([...document.querySelectorAll(".figure")].map((figure) => [
  figure.id,
  [...figure.querySelectorAll("svg")].filter((svg) => {
    const box = svg.getBoundingClientRect();
    const marks = [...svg.querySelectorAll("path, rect, line, circle")].filter((one) => one.getTotalLength() > 0);
    return box.width > 50 && box.height > 50 && marks.length > 3;
  }).length,
]));
const frame = document.querySelector("#cells .scroll");
const edges = [...frame.querySelectorAll("td.command code")].map((code) => code.getBoundingClientRect());
seen.cut = edges.filter((box) => box.right > frame.getBoundingClientRect().right + 1 || box.width < 100).length;
const search = document.querySelector("input[type=search]");
search.value = "aia motif";
search.dispatchEvent(new Event("input"));
seen.kept = [...document.querySelectorAll("#all-cells tbody tr")].filter((row) => !row.hidden).length;
seen.width = document.documentElement.scrollWidth;
"""


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


def browser() -> str:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    found = os.environ.get("CHROME") or next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("there is no Chromium here: install it, or set CHROME to one")
    return found


def opened(text: str, folder: Path, probe: str = PROBE) -> tuple[dict, str]:
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


def _score(row, column, place):
    return {"ERM": 0.60, "w/o Adv": 0.55, "w/o Sta": 0.65, "RDIA": 0.50, "AIA": 0.70}.get(row.label, 0.4) + place / 1e3


def test_a_heading_sorts_figures_are_drawn_and_the_console_is_silent(tmp_path):
    seen, console = opened(page(made("ablation", _score, words=["train.epochs=2"]), {}), tmp_path)
    assert console == ""
    assert seen["before"] == ["ERM", "w/o Adv", "w/o Sta", "RDIA", "AIA"]
    assert seen["number"] == ["descending", "AIA", "w/o Sta", "ERM", "w/o Adv", "RDIA"]
    assert seen["again"] == ["ascending", "RDIA", "w/o Adv", "ERM", "w/o Sta", "AIA"]
    assert seen["name"] == ["ascending", "ERM", "w/o Adv", "w/o Sta", "RDIA", "AIA"]  # the table's own order
    assert seen["drawn"] == {"figure-bars": 4, "figure-learning": 8}
    assert seen["kept"] == 1
    assert seen["width"] <= 1200  # wide tables scroll in their own frame
    assert seen["cut"] == 0  # commands are shortened to what room there is, and not cut off by the frame


def test_ranks_dials_and_graphs_are_drawn(tmp_path):
    covariate, sensitivity = made("covariate", _score, seeds=2), made("sensitivity", _score, seeds=2)
    seen, console = opened(page(covariate, {}), tmp_path)
    assert (seen["drawn"], console) == ({"figure-ranks": 1, "figure-learning": 14}, "")
    seen, console = opened(page(sensitivity, {}), tmp_path)
    assert (seen["drawn"], console) == ({"figure-curves": 6}, "")


def test_masks_and_augmented_graphs_are_drawn(tmp_path):
    graph = {"ends": [[0, 1], [1, 0], [1, 2], [2, 1], [2, 0], [0, 2]], "node": [1.0, 0.5, 0.0], "edge": [0.5] * 6}
    masks = made("masks", _score, seeds=2)
    seen, console = opened(page(masks, {"truth": [graph], "AIA": [graph]}), tmp_path)
    assert (seen["drawn"]["figure-masks"], console) == (2, "")
    diversity = made("diversity", _score, seeds=2)
    pictures = [{**graph, "epoch": epoch, "graph": 0} for epoch in (0, 1, 5, 10)]
    diversity.measurements = {"AIA/motif-base": {0: Measurement({"full": 0.5, "env": 0.6, "stable": 0.2}, pictures)}}
    seen, console = opened(page(diversity, {}), tmp_path)
    assert (seen["drawn"], console) == ({"figure-bars": 3, "figure-augmented": 4}, "")


def test_an_error_in_the_page_would_be_seen(tmp_path):
    broken = page(made("ablation", _score, seeds=2), {}).replace("const keyOf", "missing(); const keyOf")
    _, console = opened(broken, tmp_path)
    assert "missing is not defined" in console

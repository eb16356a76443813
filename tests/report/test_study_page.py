import pytest
from markupsafe import escape

from outland.report.study_page import conclusions, study_page
from outland.studies import STUDIES, find_study
from outland.studies.base import Measurement
from tests.report.cases import opened, scores
from tests.studies.cases import made

# What a reader does, and what they then see; `seen` is the answer.
PROBE = """
const table = document.querySelector("table.matrix");
const firsts = () => [...table.tBodies[0].rows].map((row) => row.cells[0].textContent);
const click = (index) => {
  const heading = table.tHead.rows[0].cells[index];
  heading.querySelector("button").click();
  return [heading.getAttribute("aria-sort"), ...firsts()];
};
const seen = { before: firsts(), number: click(1), again: click(1), name: click(0) };
seen.drawn = Object.fromEntries([...document.querySelectorAll(".figure")].map((figure) => [
  figure.id,
  [...figure.querySelectorAll("svg")].filter((svg) => {
    const box = svg.getBoundingClientRect();
    const marks = [...svg.querySelectorAll("path, rect, line, circle")].filter((mark) => mark.getTotalLength() > 0);
    return box.width > 50 && box.height > 50 && marks.length > 3;
  }).length,
]));
const frame = document.querySelector("#cells .scroll");
const edges = [...frame.querySelectorAll("td.command code")].map((code) => code.getBoundingClientRect());
seen.cut = edges.filter((box) => box.right > frame.getBoundingClientRect().right + 1 || box.width < 100).length;
const search = document.querySelector("input[type=search]");
search.value = "aia motif";
search.dispatchEvent(new Event("input"));
seen.matching = [...document.querySelectorAll("#all-cells tbody tr")].filter((row) => !row.hidden).length;
seen.width = document.documentElement.scrollWidth;
"""


def _score(row, column, seed):
    return {"ERM": 0.60, "w/o Adv": 0.55, "w/o Sta": 0.65, "RDIA": 0.50, "AIA": 0.70}.get(row.label, 0.4) + seed / 1e3


def test_a_heading_sorts_figures_are_drawn_and_the_console_is_silent(tmp_path):
    seen, console = opened(study_page(made("ablation", _score, words=["train.epochs=2"]), {}), tmp_path, PROBE)
    assert console == ""
    assert seen["before"] == ["ERM", "w/o Adv", "w/o Sta", "RDIA", "AIA"]
    assert seen["number"] == ["descending", "AIA", "w/o Sta", "ERM", "w/o Adv", "RDIA"]
    assert seen["again"] == ["ascending", "RDIA", "w/o Adv", "ERM", "w/o Sta", "AIA"]
    assert seen["name"] == ["ascending", "ERM", "w/o Adv", "w/o Sta", "RDIA", "AIA"]  # the table's own order
    assert seen["drawn"] == {"figure-bars": 4, "figure-learning": 8}
    assert seen["matching"] == 1
    assert seen["width"] <= 1200  # wide tables scroll in their own frame
    assert seen["cut"] == 0  # commands are shortened to what room there is, and not cut off by the frame


def test_ranks_dials_and_graphs_are_drawn(tmp_path):
    covariate, sensitivity = made("covariate", _score, seeds=2), made("sensitivity", _score, seeds=2)
    seen, console = opened(study_page(covariate, {}), tmp_path, PROBE)
    assert (seen["drawn"], console) == ({"figure-ranks": 1, "figure-learning": 14}, "")
    seen, console = opened(study_page(sensitivity, {}), tmp_path, PROBE)
    assert (seen["drawn"], console) == ({"figure-curves": 6}, "")


def test_masks_and_augmented_graphs_are_drawn(tmp_path):
    graph = {"ends": [[0, 1], [1, 0], [1, 2], [2, 1], [2, 0], [0, 2]], "node": [1.0, 0.5, 0.0], "edge": [0.5] * 6}
    masks = made("masks", _score, seeds=2)
    seen, console = opened(study_page(masks, {"truth": [graph], "AIA": [graph]}), tmp_path, PROBE)
    assert (seen["drawn"]["figure-masks"], console) == (2, "")
    diversity = made("diversity", _score, seeds=2)
    pictures = [{**graph, "epoch": epoch, "graph": 0} for epoch in (0, 1, 5, 10)]
    diversity.measurements = {"AIA/motif-base": {0: Measurement({"full": 0.5, "env": 0.6, "stable": 0.2}, pictures)}}
    seen, console = opened(study_page(diversity, {}), tmp_path, PROBE)
    assert (seen["drawn"], console) == ({"figure-bars": 3, "figure-augmented": 4}, "")


def test_an_error_in_the_page_would_be_seen(tmp_path):
    broken = study_page(made("ablation", _score, seeds=2), {}).replace("const keyOf", "missing(); const keyOf")
    _, console = opened(broken, tmp_path, PROBE)
    assert "missing is not defined" in console


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_a_page_even_of_half_a_table(name):
    def half(row, column, seed):
        return None if column.label == find_study(name).columns[-1].label and seed else scores(row, column, seed)

    results = made(name, half, seeds=2)
    if results.study.measure is not None:
        values = {quantity.name: 0.3 for quantity in results.study.quantities}
        results.measurements = {cell.name: {0: Measurement(values, [])} for cell in results.cells}
    text = study_page(results, {})
    assert str(escape(results.study.title)) in text
    assert "<svg" in text
    for cell in results.cells:
        assert cell.column.label in text
    assert "http://" not in text  # nothing is fetched
    assert "https://" not in text


def test_a_page_escapes_what_it_is_given():
    results = made("ablation", scores, seeds=2, words=["train.x=<b>&"])
    results.problems.append("<script>alert(1)</script>")
    text = study_page(results, {})
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "train.x=&lt;b&gt;&amp;" in text


def test_conclusions_do_not_call_better_what_is_not_shown():
    lines = conclusions(made("ablation", scores))
    assert lines[0] == "motif-base: AIA is better than ERM."
    lines = conclusions(made("ablation", lambda *rest: 0.5))
    assert lines[0] == "motif-base: no difference to ERM is shown."
    assert "better" not in " ".join(lines)

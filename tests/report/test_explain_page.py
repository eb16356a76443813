"""The page of explained molecules."""

import re
from dataclasses import replace

import pytest

from outland.estimators import GraphRegressor
from outland.models.explained_rows import ExplainedRow, explain_table
from outland.models.summary import Assessment, Interval, PartScore
from outland.report.explain_page import colour_scale, explain_page, round_text, shorten
from tests.conftest import SAMPLES
from tests.models.cases import SMALL, bbbp
from tests.report.cases import opened

EVIL = "<script>document.title='owned'</script><img src=x onerror=alert(1)>"
PROBE = """
const rows = () => [...document.querySelectorAll("#all-molecules tbody tr")];
const visible = () => rows().filter((row) => !row.hidden);
const firsts = () => visible().slice(0, 3).map((row) => row.cells[0].textContent);
const buttons = [...document.querySelectorAll("#all-molecules thead button")];
const heading = (name) => buttons.find((button) => button.textContent === name);
const choose = (name, value) => {
  const box = document.forms.filters.elements[name];
  box.value = value;
  box.dispatchEvent(new Event("input", { bubbles: true }));
  return visible().length;
};
const seen = { all: visible().length, title: document.title, scripts: document.scripts.length };
seen.drawn = rows().filter((row) => row.querySelectorAll("svg path").length > 3).length;
seen.coloured = rows().filter((row) => row.querySelector("svg .halo, svg circle")).length;
heading("distance").click();
seen.distances = visible().slice(0, 5).map((row) => Number(row.cells[row.cells.length - 1].dataset.value));
heading("row").click();
seen.first = firsts();
seen.wrong = choose("error", "wrong");
seen.wrongOnes = visible().every((row) => row.textContent.includes("✗"));
seen.right = choose("error", "right");
choose("error", "");
seen.zero = choose("predicted", "0");
seen.one = choose("predicted", "1");
choose("predicted", "");
seen.near = choose("flag", "near");
seen.edge = choose("flag", "edge");
seen.far = choose("flag", "far");
choose("flag", "");
seen.known = choose("seen", "seen");
seen.fresh = choose("seen", "new");
choose("seen", "");
seen.matching = choose("words", "propanolol");
seen.shown = document.getElementById("shown").textContent;
choose("words", "");
seen.pieces = document.querySelectorAll("#all-pieces svg").length;
seen.folded = !document.querySelector("details").open;
const enlarge = document.querySelector("button.card");
enlarge.click();
const large = document.getElementById("enlarged");
seen.open = large.open;
seen.larger = large.querySelector("svg").getBoundingClientRect().width / enlarge.getBoundingClientRect().width;
seen.numbers = large.querySelectorAll("svg text").length === large.querySelectorAll("svg circle").length;
seen.caption = large.querySelector("p").textContent;
large.click();
seen.closed = !large.open;
seen.requests = performance.getEntriesByType("resource").map(({ name }) => name).filter((name) => !/^data:/.test(name));
seen.width = document.documentElement.scrollWidth;
"""


@pytest.fixture(scope="module")
def model(fitted):
    return fitted.model_


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("table") / "sample.csv"
    lines = (SAMPLES / "bbbp.csv").read_text().splitlines()[:120]
    path.write_text("\n".join([*lines, f'999,"{EVIL}",1,CCO', f'1000,bad,1,"{EVIL}"']) + "\n")
    return path


def test_the_page_sorts_filters_and_draws_without_a_request(model, table, tmp_path):
    explained = explain_table(model, table, "smiles", "p_np")
    text, rows = explain_page(model, explained, table.name), explained.rows
    seen, console = opened(text, tmp_path, PROBE)
    assert console == ""
    good = [row for row in rows if row.prediction]
    assert (seen["all"], seen["drawn"]) == (len(rows), len(good))
    assert (seen["title"], seen["scripts"]) == ("sample.csv: what predictions rest on", 2)  # ours and the probe
    assert seen["coloured"] > 0.9 * len(good)
    assert seen["folded"]
    assert seen["open"]
    assert seen["closed"]
    assert seen["larger"] > 2.5
    assert seen["numbers"]
    assert seen["caption"].startswith("row 1 · ")
    expected = sorted((float(row.prediction["outland_distance"]) for row in good), reverse=True)[:5]
    assert seen["distances"] == expected
    assert seen["first"] == ["1", "2", "3"]
    assert seen["wrong"] + seen["right"] == len(good)
    assert seen["wrong"] == sum(row.truth != row.prediction["outland_class"] for row in good)
    assert seen["wrongOnes"]
    assert seen["zero"] + seen["one"] == len(good)
    assert seen["near"] + seen["edge"] + seen["far"] == len(good)
    assert (seen["known"], seen["fresh"]) == (len(good) - 1, 1)  # ethanol alone is new
    assert f"{len(good) - 1} of these {len(rows)} rows were in the model&#39;s training" in text
    assert seen["matching"] >= 1
    assert seen["shown"] == f"{seen['matching']} of {len(rows)} shown"
    assert 2 <= seen["pieces"] <= 16
    assert seen["requests"] == []
    assert seen["width"] <= 1200


def test_what_the_table_says_is_escaped(model, table):
    text = explain_page(model, explain_table(model, table, "smiles", "p_np"), f"{EVIL}.csv")
    assert "&lt;script&gt;document.title" in text
    assert "<script>document.title" not in text
    assert "<img" not in text
    assert not re.search(r"https?://", text)


def test_bytes_and_control_characters_do_not_reach_the_page(model, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"smiles,name\nCCO,caf\xe9 \x1b[31mred\x07\nCC\xff,x\nCCN,\xf0\x9f\xa7\xaa\n")
    explained = explain_table(model, path, "smiles")
    text = explain_page(model, explained, "t\udce9.csv")
    assert text.encode("utf-8")
    assert "caf\ufffd \ufffd[31mred\ufffd" in text
    assert "\U0001f9ea" in text
    assert "bytes that are not UTF-8" in text


def test_elements_that_training_never_had_are_named_at_the_flag(model, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("smiles\nCCO\nC[Sn](C)(C)C\nCC[Hg]C[Sn]C\n")
    text = explain_page(model, explain_table(model, path, "smiles"), "t.csv")
    flags = re.findall(r'<span class="flag (\w+)">([^<]*)</span>', text)
    assert flags[1:] == [("far", "far: unseen Sn"), ("far", "far: unseen Hg Sn")]
    assert "unseen" not in flags[0][1]
    without = replace(model, distance=None, expected_error=None)
    text = explain_page(without, explain_table(without, path, "smiles"), "t.csv")
    shown = re.findall(r'<span class="flag (\w*)">([^<]*)</span>', text)
    assert shown == [("", ""), ("", "unseen Sn"), ("", "unseen Hg Sn")]


def test_half_of_the_molecules_reach_full_colour():
    rows = [ExplainedRow(i, {}, "CC", {"x": ""}, (0.1 * i, -0.2 * i)) for i in (1, 2, 3)]
    assert colour_scale(rows) == pytest.approx(0.4)
    assert colour_scale([]) == colour_scale([ExplainedRow(1, {}, "C", {}, (0.0,))]) == 1.0


@pytest.mark.parametrize(
    ("cell", "short"),
    [
        ("-2.5789999999999997", "-2.579"),
        ("12345678.123456", "12345678"),
        ("0.000012345678", "1.23457e-05"),
        ("1234567890123", "1234567890123"),
        ("CC(C)N.ClCCCCCC", "CC(C)N.ClCCCCCC"),
        ("180.16", "180.16"),
        ("x" * 81, "x" * 77 + "…"),
    ],
)
def test_long_tails_are_rounded_and_names_are_not(cell, short):
    assert shorten(cell) == short


def test_numbers_are_rounded_and_right_is_defined():
    assert [round_text(number, 4) for number in ("-2.57894", "12345.6", "0.0012345")] == ["-2.579", "12346", "0.001234"]
    smiles, labels = bbbp()
    model = GraphRegressor("erm", epochs=1, backbone=SMALL).fit(smiles, labels).model_
    explained = explain_table(model, SAMPLES / "bbbp.csv", "smiles", "p_np", most=30)
    sentence = f"off by at most {model.task.std[0]:.3g}, the spread of the labels in training."
    assert sentence in explain_page(model, explained, "t.csv")
    scores = [
        PartScore(part=part, target="label", metric="rmse", rows=30, groups=30, score=Interval(value=value))
        for part, value in (("val", 9.0), ("test", 0.001))
    ]
    text = explain_page(replace(model, assessment=Assessment(scores=scores)), explained, "t.csv")
    assert "off by at most 0.001, the model&#39;s usual error" in text
    assert text.count('data-error="wrong"') >= 28

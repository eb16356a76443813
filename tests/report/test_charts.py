import subprocess
import sys

from outland.report.charts import Bar, Line, bar_chart, line_chart, rank_diagram


def test_charts_escape_and_stand_a_single_point():
    text = line_chart("a < b", [Line("x & y", [(1.0, 50.0)], 0)], "epoch")
    assert "a &lt; b" in text
    assert "x &amp; y" in text
    assert "nan" not in text


def test_hostile_names_are_drawn_as_they_are():
    evil = "<script>alert(1)</script>\"' & $\\frac{$ 日本 \x01\n$a$"
    charts = [
        line_chart(evil, [Line(evil, [(1.0, 2.0), (2.0, 3.0)], None, True, (1.0, 1.0))], evil, [evil, "b"]),
        bar_chart(evil, [Bar(evil, 1.0, 2.0, 0)], 3.0),
        rank_diagram([evil, "b"], [1.0, 2.0], 0.5, [(0, 1)]),
    ]
    for chart in charts:
        assert "<script" not in chart
        assert "&lt;script&gt;alert(1)" in chart
        assert "http" not in chart  # neither a name space nor a link


def test_a_chart_has_the_colours_of_its_page_and_is_the_same_every_time():
    def draw():
        return bar_chart("chart", [Bar("a", 1.0, 0.1, 0), Bar("b", 2.0, 0.1, 3)], 1.5)

    chart = draw()
    assert chart == draw()
    assert "#" not in chart.replace('"#', "").replace("(#", "")  # no colour, only references to elements
    for name in ("ink", "quiet", "rule", "c0", "c3"):
        assert f"var(--{name})" in chart
    assert "<title>a: 1.00 ± 0.10</title>" in chart
    assert " id=" not in chart.replace("<clipPath id=", "")


def test_matplotlib_is_not_loaded_before_a_chart_is_drawn():
    code = "import sys, outland.report.study; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"

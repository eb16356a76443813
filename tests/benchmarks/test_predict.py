"""The committed figures on predicting a long table, and where the docs show them."""

import json
from pathlib import Path

from tests.test_docs import DOCS

FIGURES = Path(__file__).parents[2] / "benchmarks" / "predict.json"


def test_the_docs_show_the_measured_figures():
    figures, page = json.loads(FIGURES.read_text()), (DOCS / "estimators.md").read_text()
    cost = figures["processor_microseconds_a_row"]
    assert f"{cost['now']:.0f} µs a row, {figures['ratio']:.2f} of what it was" in page
    assert f"{figures['rows_a_second_of_two_whole_cores_computed']:,} a second" in page
    assert figures["largest_difference_to_one_call"] <= 2e-6

"""The committed figures on predicting a long table, and where the docs show them."""

import json
from pathlib import Path

from tests.test_docs import DOCS

FIGURES = Path(__file__).parents[2] / "benchmarks" / "predict.json"


def test_the_docs_show_the_measured_figures():
    figures, page = json.loads(FIGURES.read_text()), (DOCS / "estimators.md").read_text()
    now, before = figures["now"], figures["before"]
    cost = now["processor_microseconds_a_row"]
    assert f"{cost:,.0f} µs a row, {cost / before['processor_microseconds_a_row']:.2f} of what it was" in page
    assert f"{now['rows_a_second_of_two_whole_cores_computed']:,} a second" in page
    for step, (ours, theirs) in _steps(now, before).items():
        assert f"| {step} | {theirs:,.0f} | {ours:,.0f} |" in page
    assert figures["largest_difference"]["to one call"] <= 2e-6
    assert figures["largest_difference"]["to before"] <= 2e-6


def _steps(now, before):
    """Microseconds of the steps that the docs show; descriptors are timed with the reading of a SMILES."""
    steps = [figures["microseconds_by_stage"] for figures in (now, before)]
    named = {
        "reading a SMILES": [each["SMILES"] for each in steps],
        "descriptors": [each["SMILES and descriptors"] - each["SMILES"] for each in steps],
        "counts of functional groups": [each["counts"] for each in steps],
        "atoms and bonds": [each["atoms and bonds"] for each in steps],
        "the fingerprint": [each["fingerprint"] for each in steps],
        "the model": [each["all of the model, as text"] for each in steps],
        "of which a network": [each["erm"] for each in steps],
        "of which the forest": [each["forest"] for each in steps],
    }
    return {name: tuple(values) for name, values in named.items()}

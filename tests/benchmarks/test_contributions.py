"""The committed figures on contributions, and the tables that show them."""

import json

from benchmarks.contributions import GROUPS, MEMBERS, OUT, TASKS, faithfulness_table, known_table, one_group_table

from tests.test_docs import DOCS


def test_the_docs_show_the_measured_tables():
    results, page = json.loads(OUT.read_text()), (DOCS / "estimators.md").read_text()
    assert known_table(results) in page
    assert one_group_table(results) in page
    assert faithfulness_table(results) in page


def test_all_contributions_are_above_chance():
    results = json.loads(OUT.read_text())
    assert set(results["known"]) == set(GROUPS)
    assert set(results["tables"]) == set(TASKS)
    least = {"network": 0.96, "forest": 0.84, "gradient boosting": 0.9, "their mean": 0.98}
    for result in results["known"].values():
        assert all(result["roc_auc"][member] > least[member] for member in MEMBERS)
        assert all(result["one_group"]["roc_auc"][member] > 0.99 for member in MEMBERS)
    for result in results["tables"].values():
        assert all(result["faithfulness"][member][1] > 0 for member in MEMBERS)  # the end of the interval

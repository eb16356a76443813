import pytest

from outland.errors import OutlandError
from outland.graphs import Task
from outland.training.selection import SelectionRule, choosing_rule, selections

TASK = Task("multiclass", 3, "accuracy")


def curves(*rows):
    return [
        {"epoch": i, "id_val": {"accuracy": a}, "val": {"accuracy": b}, "test": {"accuracy": c}}
        for i, (a, b, c) in enumerate(rows)
    ]


RUN = curves((0.5, 0.9, 0.3), (0.9, 0.7, 0.8), (0.9, 0.9, 0.4), (0.6, 0.8, 0.6))


@pytest.mark.parametrize(
    ("rule", "picked"),
    [
        (SelectionRule("ood_val"), 2),  # the tie with epoch 0 goes to the later one
        (SelectionRule("ood_val", burn_in=3), 3),
        (SelectionRule("id_val"), 2),
        (SelectionRule("last_epoch"), 3),
        (SelectionRule("oracle"), 1),
        (SelectionRule("oracle", burn_in=2), 3),
        (SelectionRule("ood_val", burn_in=9), 3),  # nothing is left: the last epoch
    ],
)
def test_rules(rule, picked):
    assert rule.pick(RUN, TASK) == picked


def test_lower_is_better_for_errors():
    rows = [{"val": {"rmse": value}} for value in (0.9, 0.2, None, 0.5)]
    assert SelectionRule("ood_val").pick(rows, Task("regression", 1, "rmse")) == 1


def test_a_missing_part_has_no_pick_and_missing_scores_lose():
    assert SelectionRule("id_val").pick([{"val": {"accuracy": 1.0}}], TASK) is None
    assert SelectionRule("ood_val").pick([{"val": {"accuracy": 0.1}}, {"val": {"accuracy": None}}], TASK) == 0


def test_every_rule_is_reported_with_and_without_burn_in():
    table = selections(RUN, TASK, burn_in=3)
    assert set(table) == {
        "ood_val",
        "id_val",
        "last_epoch",
        "oracle",
        "ood_val+burn_in",
        "id_val+burn_in",
        "oracle+burn_in",
    }
    assert table["ood_val"] == {"epoch": 2, "burn_in": 0, "id_val": 0.9, "val": 0.9, "test": 0.4}
    assert table["ood_val+burn_in"]["test"] == 0.6
    assert set(selections(RUN, TASK, burn_in=0)) == {"ood_val", "id_val", "last_epoch", "oracle"}


def test_the_oracle_never_chooses():
    with pytest.raises(OutlandError, match="Valid: id_val, last_epoch, ood_val"):
        choosing_rule("oracle", 0)

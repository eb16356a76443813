"""What a fit can afford."""

import json

import pytest

from outland.estimators.budget import Costs, Plan, affordable_folds, make_plan, seeds_note

FOLDS = [(80, 20)] * 15
COSTS = Costs({"aia": 0.03, "erm": 0.01}, 100, FOLDS, 5)


def test_costs_count_rows_of_all_trainings():
    assert COSTS.seconds(["erm"], 5, 10, 3) == pytest.approx(0.01 * 10 * (5 * (80 + 0.35 * 20) + 3 * 100))
    both = COSTS.seconds(["erm", "aia"], 5, 10, 3)
    assert both == pytest.approx(4 * COSTS.seconds(["erm"], 5, 10, 3))


@pytest.mark.parametrize(
    ("seconds", "networks", "folds", "epochs", "seeds"),
    [
        (1000, ("erm", "aia"), 15, 10, 3),
        (400, ("erm", "aia"), 5, 10, 3),
        (260, ("erm", "aia"), 5, 10, 2),
        (220, ("erm", "aia"), 5, 10, 1),
        (170, ("erm",), 15, 10, 3),
        (80, ("erm",), 5, 10, 3),
        (60, ("erm",), 5, 10, 1),
        (40, ("erm",), 5, 7, 1),
        (20, ("erm",), 3, 5, 1),
        (15, ("erm",), 3, 4, 1),
        (5, (), 15, 0, 0),
    ],
)
def test_repeats_and_seeds_go_first_then_the_slowest_network_then_epochs_and_folds(
    seconds, networks, folds, epochs, seeds
):
    plan = make_plan(COSTS, 10, seconds)
    assert (plan.networks, plan.folds, plan.epochs, plan.seeds) == (networks, folds, epochs, seeds)
    assert set(plan.left_out) == {"erm", "aia"} - set(networks)
    assert not networks or COSTS.seconds(networks, folds, epochs, seeds) <= seconds


def test_what_is_given_up_is_said():
    plan = make_plan(COSTS, 10, 20)
    assert plan.notes == (
        "networks were trained for up to 5 epochs instead of 10",
        "contenders were judged on 3 of 5 folds",
    )
    assert seeds_note(plan, [5]) == ("a network has 1 seed in the model instead of 3",)
    assert seeds_note(plan, [2, 1]) == ("a network has 2 seeds in the model instead of 3",)
    assert seeds_note(plan, [1]) == seeds_note(plan, []) == ()
    assert plan.left_out == {"aia": "4 min of processor time would be needed with it, and 20 s were left"}


def test_epochs_that_the_user_fixed_stay():
    assert make_plan(COSTS, 10, 40, fixed_epochs=True).epochs == 10
    assert make_plan(COSTS, 2, 1000).epochs == 2


def test_a_plan_goes_through_a_file():
    plan = make_plan(COSTS, 10, 20)
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_trees_have_whole_divisions_or_two_folds_at_least():
    assert affordable_folds(1.0, 100, 5, 15) == 15
    assert affordable_folds(1.0, 10, 5, 15) == 5
    assert affordable_folds(1.0, 0, 5, 15) == 5  # cheap in any case
    assert affordable_folds(20.0, 85, 5, 5) == 3
    assert affordable_folds(20.0, 0, 5, 5) == 2

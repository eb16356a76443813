"""What a model folder says of scores."""

import pytest
from pydantic import ValidationError

from outland.models.summary import Assessment, Interval, PartScore


def part_score(rows: int = 20, rare: int | None = None, part: str = "test", target: str = "y") -> PartScore:
    return PartScore(
        part=part, target=target, metric="rocauc", rows=rows, groups=rows, score=Interval(value=1.0), rare=rare
    )


def test_few_rows_judge_nothing():
    assert part_score(3, 1).too_few == "too few to judge (3 rows)"
    assert part_score(400, 9).too_few == "too few to judge (9 rows of one class)"
    assert part_score(400, 1).too_few == "too few to judge (1 row of one class)"
    assert part_score(20, 10).too_few == ""
    assert part_score(19, None).too_few == "too few to judge (19 rows)"
    assert part_score(20, None).too_few == ""


def test_an_assessment_gives_the_scores_of_a_part_in_the_order_of_targets():
    scores = [part_score(part=part, target=target) for part in ("val", "test") for target in ("b", "a")]
    assert [score.target for score in Assessment(scores=scores).of("test")] == ["b", "a"]
    assert [score.part for score in Assessment(scores=scores).of("val")] == ["val", "val"]


@pytest.mark.parametrize("changes", [{"rows": "20"}, {"metric": "f1"}, {"score": {"value": float("nan")}}, {"odd": 1}])
def test_values_of_another_kind_are_refused(changes):
    with pytest.raises(ValidationError):
        PartScore(**{**part_score().model_dump(), **changes})

"""Contenders on a model's card."""

from outland.models.comparison import ReliabilityBin
from outland.models.comparison_text import comparison_section, format_difference, format_interval
from outland.models.plain import Interval
from tests.report.test_fit_summary import comparison


def test_scores_and_differences_have_intervals_where_they_are_known():
    assert format_interval(Interval(value=0.8), "rocauc") == "80.00"
    assert format_interval(Interval(value=0.8, low=0.7, high=0.9), "rmse") == "0.800 (0.700 to 0.900)"
    assert format_difference(Interval(value=-0.012, low=-0.02, high=0.01), "rocauc") == "-1.20 (-2.00 to +1.00)"
    assert format_difference(Interval(value=0.5), "rmse") == "+0.500"
    assert format_difference(Interval(value=None), "rmse") == "–"


def test_the_card_says_what_was_delivered_and_why():
    bins = [ReliabilityBin(mean_probability=0.25, observed_rate=0.5, rows=1200)]
    text = comparison_section(comparison(reliability=bins, left_out={"aia": "no time"}, notes=["a note"]))
    assert "200 rows were held out in 5 folds" in text
    assert "Delivered: it is the best." in text
    assert "| weighted mean | 85.00 | 80.00 to 90.00 | delivered | 0.400 | – |" in text
    assert "| ERM, 17 epochs | 80.00 | – | -5.00 | 0.450 | 25% |" in text
    assert "- aia was left out: no time" in text
    assert "- a note" in text
    assert "off by 0.030 on average (calibrated on the other folds where their rows suffice):" in text
    assert "| 25% | 50% | 1,200 | ██████████ |" in text
    assert "off by" not in comparison_section(comparison(metric="rmse", calibration_error=None))

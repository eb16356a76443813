import math

import numpy as np
import pytest
from scipy import stats

from outland.studies.statistics import (
    auc_error,
    auc_interval,
    average_ranks,
    cliques,
    critical_difference,
    friedman,
    holm,
    min_p,
    sign_flip_test,
    summarize,
)


def test_summary_has_population_spread_and_sample_error():
    found = summarize([70.0, 72.0, 77.0])
    assert found.mean == 73.0
    assert found.std == pytest.approx(math.sqrt((9 + 1 + 16) / 3))
    assert found.error == pytest.approx(stats.sem([70.0, 72.0, 77.0]))
    assert math.isnan(summarize([1.0]).error)


def test_sign_flips_by_hand():
    assert sign_flip_test([1.0, 2.0, 3.0]) == 2 / 8  # only all + and all - are as large
    assert sign_flip_test([1.0, 2.0, -3.0]) == 1.0  # the sum is 0
    assert sign_flip_test([3.0, 2.0, -1.0]) == 4 / 8  # 6, 4, -4, -6
    assert sign_flip_test([0.0, 0.0]) == 1.0
    assert min_p(10) == sign_flip_test([1.0] * 10) == 2 / 1024


@pytest.mark.parametrize("shift", [0.0, 0.5, 2.0])
def test_sign_flips_equal_scipys_exact_permutation_test(shift):
    pairs = np.random.default_rng(3).normal(shift, 1, 10)
    exact = stats.permutation_test((pairs,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert sign_flip_test(pairs) == pytest.approx(exact.pvalue, abs=1e-12)


def test_many_pairs_are_sampled_and_agree_with_the_t_test():
    pairs = np.random.default_rng(5).normal(0.4, 1, 40)
    assert sign_flip_test(pairs) == pytest.approx(stats.ttest_1samp(pairs, 0).pvalue, abs=0.003)
    assert sign_flip_test(pairs) == sign_flip_test(pairs)


def test_the_test_keeps_its_level():
    random = np.random.default_rng(0)
    alarms = np.mean([sign_flip_test(random.standard_t(2, 8)) < 0.05 for _ in range(1000)])
    assert 0.03 < alarms < 0.065  # 0.047 is the nearest it can get below


def test_holm_by_hand():
    # 3 × 0.01, 2 × 0.02 = 0.04, then 0.03 may not fall below it
    assert holm([0.03, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_average_ranks_and_friedman_equal_scipys():
    scores = np.array([[70.0, 50.0, 30.0], [60.0, 50.0, 20.0], [65.0, 40.0, 25.0]])
    assert average_ranks(scores) == pytest.approx([(1 + 1.5 + 1) / 3, (3 + 1.5 + 3) / 3, (2 + 3 + 2) / 3])
    assert friedman(scores) == pytest.approx(stats.friedmanchisquare(*scores).pvalue)
    assert friedman(np.ones((3, 4))) == 1.0


@pytest.mark.parametrize(("methods", "q"), [(2, 1.960), (5, 2.728), (10, 3.164)])
def test_critical_difference_has_the_tables_q(methods, q):
    """Demšar 2006, table 5 (a)."""
    expected = q * math.sqrt(methods * (methods + 1) / (6 * 14))
    assert critical_difference(methods, 14) == pytest.approx(expected, rel=1e-3)


def test_cliques_are_as_long_as_they_can_be():
    assert cliques([1.0, 2.0, 3.0, 6.0], 2.0) == [(0, 2)]
    assert cliques([1.0, 2.0, 3.0, 4.0], 1.5) == [(0, 1), (1, 2), (2, 3)]
    assert cliques([1.0, 5.0], 1.0) == []
    assert cliques([1.0, 1.5, 2.0], 9.0) == [(0, 2)]


def test_auc_error_is_hanley_and_mcneils():
    """Molhiv: 81 positives of 4,108 (scaffold) and 63 of 3,961 (size), the benchmark's 2.6 to 3.9 points."""
    assert 100 * auc_error(0.70, 81, 4108 - 81) == pytest.approx(3.3, abs=0.1)
    assert 100 * auc_error(0.60, 63, 3961 - 63) == pytest.approx(3.8, abs=0.1)
    # by hand: A = 0.8, Q1 = 2/3, Q2 = 1.28/1.8, one positive and one negative leave A(1 - A)
    assert auc_error(0.8, 1, 1) == pytest.approx(0.4)
    q1, q2 = 0.8 / 1.2, 2 * 0.64 / 1.8
    assert auc_error(0.8, 10, 20) == pytest.approx(math.sqrt((0.16 + 9 * (q1 - 0.64) + 19 * (q2 - 0.64)) / 200))


def test_auc_error_agrees_with_a_simulation():
    random = np.random.default_rng(1)
    found = []
    for _ in range(400):
        high, low = random.exponential(3.0, 40), random.exponential(1.0, 200)  # the formula's own law: AUC = 3/4
        found.append(stats.mannwhitneyu(high, low).statistic / 8000)
    assert np.mean(found) == pytest.approx(0.75, abs=0.01)
    assert np.std(found) == pytest.approx(auc_error(0.75, 40, 200), rel=0.12)


def test_auc_interval_stays_inside_and_widens_with_fewer_positives():
    low, high = (math.log(one / (1 - one)) for one in auc_interval(0.7, 81, 4027))
    assert (low + high) / 2 == pytest.approx(math.log(0.7 / 0.3))
    assert (high - low) / 2 == pytest.approx(1.959964 * auc_error(0.7, 81, 4027) / 0.21, rel=1e-5)
    few = auc_interval(0.98, 3, 10)
    assert 0 < few[0] < 0.9
    assert few[1] < 1
    assert auc_interval(1.0, 5, 5) == (0.0, 1.0)

"""How the study of repeatability counts; what it found takes twenty minutes of an idle machine."""

import numpy as np
import pandas as pd
import pytest
import repeatability as study


def told(values, reach):
    """Of one parameter, a probe each, with ranges so far on either side."""
    values = np.asarray(values, float)
    low, high = values - reach, values + reach
    ends = {"low": low, "high": high, "low90": low, "high90": high}
    return pd.DataFrame({"probe": np.arange(len(values)), "of": "rate", "value": values} | ends)


def test_neighbours_agree_within_both_ranges():
    found = study.agreement(told([1.0, 2.4, 3.9], 1.0))  # apart by 1.4 and 1.5, and √2 is allowed
    assert [*found.loc["rate"]] == [2, 1]
    assert [*found.loc["all of them"]] == [2, 1]


def test_what_only_one_of_two_tells_is_no_disagreement():
    rate, alpha = told([1.0, 1.0, 1.0], 0.1), told([5.0, 9.0, 9.0], 0.1).assign(of="alpha")
    found = study.agreement(pd.concat([rate, alpha[alpha["probe"] != 1]]))
    assert [*found.loc["alpha"]] == [0, 0]
    assert [*found.loc["all of them"]] == [2, 2]


def test_a_range_covers_the_median_of_later_ones():
    steady, shifted = told([1.0] * 4, 0.5), told([1.0, 3.0, 3.0, 3.0], 0.5)
    assert study.coverage(steady, later=2) == 1.0
    assert study.coverage(shifted, later=2) == pytest.approx(0.5)  # the first of two probes misses
    assert np.isnan(study.coverage(steady, later=20))

"""When to stop: every cell's median known as well as was wanted.

The round is the unit of independence: repeats taken in one breath agree with each other and not
with the next round. So a cell's samples are its medians round by round, and the interval of their
median is that between two order statistics, whatever their distribution.

Source: W. J. Conover, "Practical Nonparametric Statistics", 3rd ed., 1999, section 3.2.
"""

import math
from collections.abc import Iterable, Sequence

_LEVEL = 0.95
_MOST_CELLS = 0.9


def median_width(samples: Sequence[float]) -> float:
    """Half the width of the median's 95 % interval, relative to the median.

    Args:
        samples: independent ones, one a round.

    Returns:
        The half width; infinite below six samples, which bound no such interval.

    >>> median_width([1.0] * 5), median_width([1.0, 1.1, 0.9, 1.0, 1.0, 1.0])
    (inf, 0.1)
    """
    ordered, count = sorted(samples), len(samples)
    outside = _rank(count)
    if outside < 0:
        return math.inf
    middle = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    return round((ordered[count - 1 - outside] - ordered[outside]) / (2 * middle), 12)


def settled(cells: Iterable[Sequence[float]], wanted: float) -> bool:
    """Whether nine in ten cells are known to the wanted relative half width.

    The last tenth would cost as much as all others: a cell with two modes never settles.

    Args:
        cells: the samples of each.
        wanted: half the width of the median's interval, relative to it.
    """
    widths = [median_width(samples) for samples in cells]
    return sum(width <= wanted for width in widths) >= _MOST_CELLS * len(widths)


def _rank(count: int) -> int:
    """How many order statistics to leave out at each end; −1 where even none is too many."""
    tail, rank = 0.5**count, -1
    below = tail
    while below <= (1 - _LEVEL) / 2 and rank < count // 2:
        rank += 1
        tail *= (count - rank) / (rank + 1)
        below += tail
    return rank

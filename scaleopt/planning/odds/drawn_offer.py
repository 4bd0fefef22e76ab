"""The best configurations of an offer on drawn machines, be they layouts or other splits."""

import numpy as np

from scaleopt.planning.odds.drawn import Drawn, Span
from scaleopt.planning.odds.drawn_layouts import drawn_layouts, layout_span
from scaleopt.planning.odds.drawn_splits import drawn_splits, split_span
from scaleopt.planning.searching.configuration import Configuration
from scaleopt.planning.searching.searched import Searched
from scaleopt.planning.searching.searched_layouts import SearchedLayouts
from scaleopt.planning.searching.workload_search import SearchedWorkload


def drawn_offer(side: Searched, best: Configuration, draws: int) -> Drawn:
    """The best configurations, a given one first, on machines that the offer's fit allows.

    Args:
        side: the offer, with a fit of its machine.
        best: the given one.
        draws: how many machines.
    """
    fit = side.offer.fit
    assert fit is not None
    if isinstance(side, SearchedLayouts):
        return drawn_layouts(fit, side, best, draws)
    assert isinstance(side, SearchedWorkload)
    return drawn_splits(fit, side, best, draws)


def offer_span(side: Searched, best: Configuration, seconds: np.ndarray, level: float) -> Span:
    """The range of a step of a configuration.

    Args:
        side: the offer.
        best: the configuration.
        seconds: (draws,), that it takes on each drawn machine.
        level: of the range.
    """
    fit = side.offer.fit
    assert fit is not None
    if isinstance(side, SearchedLayouts):
        return layout_span(fit, side, best, seconds, level)
    assert isinstance(side, SearchedWorkload)
    return split_span(fit, side, best, seconds, level)

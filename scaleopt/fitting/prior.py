"""What is known of a parameter before any row is seen: a value, and the factor it may be off by.

It joins the rows as one more residual of the least squares, (log θ − log value)/log factor.

Source: A. Gelman et al., "Bayesian Data Analysis", 3rd ed., 2013, section 14.8.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np


class Prior(NamedTuple):
    """A parameter known before: log θ ~ Normal(log value, (log factor)²).

    Args:
        value: the median, in SI.
        factor: above 1; the truth lies between value/factor and value·factor in 68 % of cases.

    >>> Prior(5e-6, 1.5)
    Prior(value=5e-06, factor=1.5)

    Source: the module's. `Fit.priors` makes them from an older fit.
    """

    value: float
    factor: float


def prior_of(names: tuple[str, ...], priors: Mapping[str, Prior]) -> tuple[np.ndarray, np.ndarray]:
    """Log value and precision of each parameter, 0 where nothing is known.

    Args:
        names: of the free parameters.
        priors: by name.

    Raises:
        ValueError: a name that is not free, a value not above 0, a factor not above 1.
        TypeError: what is no prior.
    """
    log_value, precision = np.zeros(len(names)), np.zeros(len(names))
    for name, prior in priors.items():
        if name not in names:
            raise ValueError(
                f"priors[{name!r}]: the model has no such free parameter; it has {', '.join(names)}"
            )
        if not isinstance(prior, tuple):
            raise TypeError(
                f"priors[{name!r}] is {prior!r}; give so.Prior(value, factor), such as "
                "so.Prior(5e-6, 1.5) for 5e-6 within a factor of 1.5"
            )
        value, factor = prior
        if not (0 < value < np.inf and 1 < factor < np.inf):
            raise ValueError(
                f"priors[{name!r}] is {value} within a factor of {factor}; a prior has a value "
                "above 0 and a factor above 1: fix a parameter that is known exactly"
            )
        place = names.index(name)
        log_value[place], precision[place] = np.log(value), 1 / np.log(factor)
    return log_value, precision

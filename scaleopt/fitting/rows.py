"""What the solver takes and what it gives: one table of rows, or thousands of one design."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jax import Array


class Rows(NamedTuple):
    """What all tables have in common, beside the model."""

    kind: np.ndarray
    """(kinds, rows): 1 where a row is of a kind."""
    weight: np.ndarray
    """(rows,): a row of weight w scatters as the mean of w rows does."""
    prior: tuple[np.ndarray, np.ndarray]
    """(parameters,) each: log θ as known before, and the inverse of its standard deviation."""
    scale: np.ndarray | None = None
    """(kinds,): the noise of each kind where it is known, else it is estimated."""


class Tables(NamedTuple):
    """In what the tables differ."""

    measured: np.ndarray
    """(tables, rows): log seconds, or seconds where misses are absolute."""
    copies: np.ndarray
    """(tables, rows): how often each row is there."""


Observe = Callable[[Any, dict[str, Array]], Array]
"""A model and columns in, the seconds that each row should have taken out."""


class Solution(NamedTuple):
    """Where the search of each table ended, and what its rows say there."""

    u: np.ndarray
    predicted: np.ndarray
    """(tables, rows): log seconds, or seconds where misses are absolute."""
    jacobian: np.ndarray
    """(tables, rows, parameters): ∂ predicted / ∂u."""
    prior_slope: np.ndarray
    """(tables, parameters): of the standardised miss of each prior in its u."""
    row_scale: np.ndarray
    """(tables, rows): the noise of each row, by its kind and weight."""
    scale: np.ndarray
    """(tables, kinds): the noise of each kind."""
    influence: np.ndarray
    """(tables, rows): ψ of each standardised residual, what the row still has to say."""
    slope: np.ndarray
    """(tables, rows): ψ' of each standardised residual."""
    gradient: np.ndarray
    """(tables, parameters): of the loss, in units of each parameter's own noise; 0 at a minimum."""

"""Robust least squares: a model and rows in, the best point out; one table or thousands at once.

A row's residual is e = log measured − log predicted (or measured − predicted), in units of its
kind's noise; what it is charged is told in `scaleopt.fitting.loss`, and the way down in `descent`.
What is known of a parameter before is one more row, of log θ, whose noise is known and which
squares charge.

Every table is a lane of one `vmap`; those that are done wait for the others.

Source: P. J. Huber and E. M. Ronchetti, "Robust Statistics", 2nd ed., 2009, chapters 6 and 7.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scaleopt.fitting.descent import TableSearch
from scaleopt.fitting.loss import HUBER as HUBER
from scaleopt.fitting.loss import NORMAL_MAD as NORMAL_MAD
from scaleopt.fitting.loss import Loss
from scaleopt.fitting.parameters import Parameters, Point
from scaleopt.fitting.rows import Observe, Rows, Solution, Tables


def solve(
    observe: Observe,
    parameters: Parameters,
    loss: Loss,
    rows: Rows,
    tables: Tables,
    point: Point,
) -> Solution:
    """Minimise the loss of each table from its point, keeping coordinates and frozen entries.

    Args:
        observe: what a model predicts for the rows.
        parameters: the free numbers.
        loss: how misses count.
        rows: what all tables have in common.
        tables: the measurements.
        point: where to start, (tables, parameters) each.

    Returns:
        The solutions; entries that are not finite mean that a search failed.
    """
    found = _solve(observe, parameters, loss, rows, tables, point)
    return Solution(**{name: np.asarray(each) for name, each in found.items()})


@eqx.filter_jit
def _solve(
    observe: Observe,
    parameters: Parameters,
    loss: Loss,
    rows: Rows,
    tables: Tables,
    point: Point,
) -> dict[str, Array]:
    prior_log, precision = rows.prior

    def one(measured: Array, copies: Array, point: Point) -> dict[str, Array]:
        table = TableSearch(
            observe,
            parameters,
            loss,
            rows,
            point,
            measured=jnp.concatenate([measured, prior_log]),
            copies=jnp.concatenate([copies, jnp.ones_like(precision)]),
        )
        # JAX hashes what it loops over, which a table's own methods cannot be.
        found = jax.lax.while_loop(
            lambda search: table.going(search), lambda search: table.step(search), table.begun()
        )
        return table.ended(found)

    return jax.vmap(one)(jnp.asarray(tables.measured), jnp.asarray(tables.copies), point)

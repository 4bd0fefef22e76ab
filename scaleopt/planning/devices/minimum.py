"""Where a function of one number is least, differentiable in all that the function depends on."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

_GRID = 641
_HALVINGS = 50
_ZOOM, _ZOOMS = 33, 8
_ROUNDING = 1e-12
_FLAT = 1e-3


def least_place(seconds: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Where a function is least: the best cell of a grid, refined by its slope, or by its value.

    The slope tells the place best where the function is smooth; where it has a kink or a jump, as
    the levels of a tree make it, its value does, and the place does not move with a parameter.

    Args:
        seconds: of one number.
        low: where to look from.
        high: where to look to.
    """
    grid = jnp.linspace(low, high, _GRID)
    place = jnp.argmin(jax.lax.stop_gradient(jax.vmap(seconds)(grid)))
    # Where the best is an end of the range there is no zero to bracket: the search is given one.
    end = (place == 0) | (place == _GRID - 1)
    below, above = grid[jnp.maximum(place - 1, 0)], grid[jnp.minimum(place + 1, _GRID - 1)]
    slope = jax.grad(seconds)

    def condition(x: Array) -> Array:
        return jnp.where(end, x - grid[place], slope(x))

    def search(condition: Callable[[Array], Array], start: Array) -> Array:
        def halve(_: int, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
            middle = (bracket[0] + bracket[1]) / 2
            rising = condition(middle) > 0
            return jnp.where(rising, bracket[0], middle), jnp.where(rising, middle, bracket[1])

        def zoom(_: int, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
            within = jnp.linspace(bracket[0], bracket[1], _ZOOM)
            best = jnp.argmin(jax.vmap(seconds)(within))
            return within[jnp.maximum(best - 1, 0)], within[jnp.minimum(best + 1, _ZOOM - 1)]

        by_slope, _ = jax.lax.fori_loop(0, _HALVINGS, halve, (below, above))
        near = jax.lax.fori_loop(0, _ZOOMS, zoom, (below, above))
        tried = jnp.linspace(near[0], near[1], _ZOOM)
        times = jax.vmap(seconds)(tried)
        # The slope's place where it is as good as any, since it is the most exact.
        good = seconds(by_slope) <= jnp.min(times) * (1 + _ROUNDING)
        best = jnp.where(good, by_slope, tried[jnp.argmin(times)])
        return jnp.where(end, start, best)

    def tangent(linear: Callable[[Array], Array], change: Array) -> Array:
        bend = linear(jnp.ones_like(change))
        return jnp.where(bend > 0, change / jnp.where(bend > 0, bend, 1.0), 0.0)

    # Differentiated through dT/dx = 0, which stays true when a parameter moves.
    found = jax.lax.custom_root(condition, grid[place], search, tangent)
    still = jax.lax.stop_gradient(found)
    smooth = end | (jnp.abs(slope(still)) <= _FLAT * jnp.abs(seconds(still)))
    return jnp.where(jax.lax.stop_gradient(smooth), found, still)

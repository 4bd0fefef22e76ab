"""What each collective algorithm sends: how many messages in a row, and how much in them.

Under the α–β model a schedule takes  T = messages · α + volume · β M,  the messages that follow one
another on the longest path, and the bytes in them as a multiple of M, the full, unsharded array.
Every algorithm is those two counts as a function of N; `scaleopt.models.collectives` turns them
into seconds. Where an algorithm needs a power of two, the devices beyond the largest one fold their
data in first and get the result last, by two messages of M.

Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations
in MPICH", IJHPCA 19(1), 2005; J. Bruck et al., IEEE TPDS 8(11), 1997.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

_BITS = 24


class Schedule(NamedTuple):
    """The longest path of an algorithm."""

    messages: Array
    """How many messages follow one another."""
    volume: Array
    """Bytes in them, as a multiple of the array's."""


def _floor_log2(devices: Array) -> Array:
    """⌊log₂ N⌋, exact: a logarithm rounds, and just below a power of two it would round up."""
    return jnp.asarray(jnp.frexp(jax.lax.stop_gradient(devices))[1] - 1, devices.dtype)


def _ceil_log2(devices: Array) -> Array:
    """⌈log₂ N⌉."""
    below = _floor_log2(devices)
    return below + (devices > 2.0**below)


def _folded(devices: Array) -> tuple[Array, Array, Array]:
    """log₂ of the largest power of two up to N, that power, and messages to fold the rest in."""
    rounds = _floor_log2(devices)
    power = 2.0**rounds
    return rounds, power, 2.0 * (devices > power)


def ring_all_reduce(devices: Array) -> Schedule:
    """2(N − 1) messages of M/N: once around to reduce, once more to spread."""
    hops = 2 * (devices - 1)
    return Schedule(hops, hops / devices)


def recursive_doubling_all_reduce(devices: Array) -> Schedule:
    """log₂ N exchanges of the whole array with partners 1, 2, 4, … away."""
    rounds, _, fold = _folded(devices)
    return Schedule(rounds + fold, rounds + fold)


def rabenseifner_all_reduce(devices: Array) -> Schedule:
    """Reduce-scatter by halving, then all-gather by doubling: 2 log₂ N messages, 2(N − 1)/N M."""
    rounds, power, fold = _folded(devices)
    return Schedule(2 * rounds + fold, 2 * (power - 1) / power + fold)


def binomial_tree_all_reduce(devices: Array) -> Schedule:
    """Reduce to one device along a binomial tree, broadcast back along it."""
    rounds = 2 * _ceil_log2(devices)
    return Schedule(rounds, rounds)


def ring_pass(devices: Array) -> Schedule:
    """N − 1 messages of M/N around a ring: an all-gather, or a reduce-scatter."""
    hops = devices - 1
    return Schedule(hops, hops / devices)


def bruck_all_gather(devices: Array) -> Schedule:
    """⌈log₂ N⌉ messages that double, the last one cut: (N − 1)/N of M, for any N."""
    return Schedule(_ceil_log2(devices), (devices - 1) / devices)


def pairwise_all_to_all(devices: Array) -> Schedule:
    """N − 1 exchanges of M/N², one with each other device."""
    return Schedule(devices - 1, (devices - 1) / devices**2)


def bruck_all_to_all(devices: Array) -> Schedule:
    """⌈log₂ N⌉ messages; round k carries the blocks whose distance has bit k set."""
    period = 2.0 ** jnp.arange(1, _BITS + 1)
    whole = jnp.floor(devices[..., None] / period)
    rest = jnp.maximum(devices[..., None] - whole * period - period / 2, 0.0)
    blocks = jnp.sum(whole * period / 2 + rest, axis=-1)
    return Schedule(_ceil_log2(devices), blocks / devices**2)


def binomial_tree(devices: Array) -> Schedule:
    """⌈log₂ N⌉ messages of the whole array: a broadcast, or a reduction to one device."""
    rounds = _ceil_log2(devices)
    return Schedule(rounds, rounds)


ALGORITHMS: dict[str, dict[str, Callable[[Array], Schedule]]] = {
    "all_reduce": {
        "ring": ring_all_reduce,
        "recursive_doubling": recursive_doubling_all_reduce,
        "rabenseifner": rabenseifner_all_reduce,
        "binomial_tree": binomial_tree_all_reduce,
    },
    "all_gather": {"ring": ring_pass, "bruck": bruck_all_gather},
    "reduce_scatter": {"ring": ring_pass},
    "all_to_all": {"pairwise": pairwise_all_to_all, "bruck": bruck_all_to_all},
    "broadcast": {"binomial_tree": binomial_tree},
    "reduce": {"binomial_tree": binomial_tree},
}
"""The algorithms of each collective; the first is the one that is used unless another is named."""

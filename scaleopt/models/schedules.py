"""What each collective algorithm sends: how many messages in a row, and how much in them.

Under the α–β model a schedule takes  T = messages · α + volume · β M,  the messages that follow one
another on the longest path, and the bytes in them as a multiple of M, the full, unsharded array.
Every algorithm is those two counts as a function of N; `scaleopt.models.collectives` turns them
into seconds. Where an algorithm needs a power of two, the devices beyond the largest one fold their
data in first and get the result last, by two messages of M. Algorithms that forward pieces are a
`Pipeline`: cut into a number of pieces it is a schedule too.

Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations
in MPICH", IJHPCA 19(1), 2005; J. Bruck et al., IEEE TPDS 8(11), 1997; P. Sanders, J. Speck,
J. L. Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel
Computing 35, 2009, for two trees that share no inner device.
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

    def time(self, alpha: Array, transfer: Array) -> Array:
        """Seconds, with transfer = βM."""
        return self.messages * alpha + self.volume * transfer


class Pipeline(NamedTuple):
    """An algorithm that cuts the array into pieces, so that a tree forwards one as it gets another.

    2w(h + k − 1) messages of M/(τk) follow one another: k pieces for each of τ trees of h levels,
    down and up, in rounds in which a device sends or gets up to w messages. With the best number of
    pieces, k² = (h − 1) βM / (τα), where that is above 1, they take 2w (√((h − 1)α) + √(βM/τ))².
    """

    levels: Array
    """h, from the root to the farthest leaf."""
    width: Array
    """w, messages that a device sends or gets in a round."""
    trees: int
    """τ, trees at work at once, each with its share of the array."""

    def cut(self, pieces: Array) -> Schedule:
        """The schedule with k pieces."""
        rounds = jnp.where(self.levels > 0, self.levels + pieces - 1, 0.0)
        messages = 2 * self.width * rounds
        return Schedule(messages, messages / (self.trees * pieces))

    def time(self, alpha: Array, transfer: Array) -> Array:
        """Seconds with the best real number of pieces, at least one; transfer = βM."""
        share, deeper = transfer / self.trees, jnp.maximum(self.levels - 1, 0.0)
        whole = 2 * self.width * self.levels * (alpha + share)
        several = deeper * share > alpha
        # The slope of √ is infinite at 0: where α is 0 the mixed term has none.
        mixed = several & (alpha > 0)
        root = jnp.sqrt(jnp.where(mixed, deeper * share, 1.0))
        root = jnp.where(mixed, root * jnp.sqrt(jnp.where(mixed, alpha, 1.0)), 0.0)
        cut = 2 * self.width * (deeper * alpha + share + 2 * root)
        return jnp.where(several, cut, whole)


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


def pipelined_tree(devices: Array, trees: int) -> Pipeline:
    """Reduce along a binary tree and broadcast back, piece by piece.

    The tree joins N devices as in-order numbers do, in ⌊log₂N⌋ levels. A second one, in which the
    inner devices of the first are leaves, takes half of the array at the same time: then every
    device's links are in use, and 2βM is left where one tree takes 4βM.
    """
    return Pipeline(_floor_log2(devices), jnp.minimum(devices - 1, 2.0), trees)


def binary_tree_all_reduce(devices: Array) -> Pipeline:
    """One tree: half of the devices are leaves, whose links are half idle."""
    return pipelined_tree(devices, 1)


def double_binary_tree_all_reduce(devices: Array) -> Pipeline:
    """Two trees, each with half of the array."""
    return pipelined_tree(devices, 2)


def scatter_all_gather_broadcast(devices: Array) -> Schedule:
    """Scatter along a binomial tree, then all-gather around a ring."""
    ring = ring_pass(devices)
    return Schedule(_ceil_log2(devices) + ring.messages, 2 * ring.volume)


def shift(devices: Array) -> Schedule:
    """Each device's share to another, all at once."""
    together = jnp.minimum(devices - 1, 1.0)
    return Schedule(together, together / devices)


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


ALGORITHMS: dict[str, dict[str, Callable[[Array], Schedule | Pipeline]]] = {
    "all_reduce": {
        "ring": ring_all_reduce,
        "recursive_doubling": recursive_doubling_all_reduce,
        "rabenseifner": rabenseifner_all_reduce,
        "binomial_tree": binomial_tree_all_reduce,
        "binary_tree": binary_tree_all_reduce,
        "double_binary_tree": double_binary_tree_all_reduce,
    },
    "all_gather": {"ring": ring_pass, "bruck": bruck_all_gather},
    "reduce_scatter": {"ring": ring_pass},
    "all_to_all": {"pairwise": pairwise_all_to_all, "bruck": bruck_all_to_all},
    "broadcast": {
        "binomial_tree": binomial_tree,
        "scatter_all_gather": scatter_all_gather_broadcast,
    },
    "reduce": {"binomial_tree": binomial_tree},
    "permute": {"shift": shift},
}
"""The algorithms of each collective; the first is the one that is used unless another is named."""


def algorithm_of(collective: str, algorithm: str) -> Callable[[Array], Schedule | Pipeline]:
    """An algorithm of a collective.

    Raises:
        ValueError: a collective or an algorithm that is not known.
    """
    known = algorithms(collective)
    if algorithm not in known:
        raise ValueError(
            f"algorithm={algorithm!r} is not known for {collective}; use one of {', '.join(known)}"
        )
    return known[algorithm]


def algorithms(collective: str) -> dict[str, Callable[[Array], Schedule | Pipeline]]:
    """The algorithms of a collective by their names.

    Raises:
        ValueError: a collective that is not known.
    """
    if collective not in ALGORITHMS:
        known = ", ".join(ALGORITHMS)
        raise ValueError(f"collective={collective!r} is not known; use one of {known}")
    return ALGORITHMS[collective]

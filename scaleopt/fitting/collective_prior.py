"""What is known of a link before its cells are fitted, and where the search of it begins.

The widths say how far links of all kinds lie apart. A ring's messages grow as N − 1, a tree's as
log N, and those of an all-to-all do not wait for each other; bandwidth stays, but that of two
devices, which are a pair, differs from that around a ring of many. What a table tells of itself is
stronger than all of this.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from scaleopt.fitting.collective_link import PIECES, Numbers, numbers_of, vector_of
from scaleopt.fitting.collective_rows import COUNTS, Cells

_ABSENT, _FIXED = 60.0, 1e-3
"""How much slower, as a log, a protocol is that a link does without, and how firmly."""
_LAUNCH, _LAUNCH_PULL = 7.0, 0.8
"""The launch over the first α."""
_START, _START_PULL = 2.0, 1.0
"""What a protocol costs besides, over its α: base over ring latencies are 0.8 to 3.4 in the table
that NCCL chooses by (NVIDIA/nccl 2.30.7, src/graph/tuning.cc)."""
_RING, _TREE, _ALPHA_EXPONENT_PULL = 0.9, 0.4, 0.2
"""The most that messages are expected to grow, as N to this power: in turns around a node; across
nodes, or where all are sent at once."""
_BETA_EXPONENT_PULL = 0.06
_CROWDING_PULL = 0.4
_SWITCHED, _SWITCHED_SLOPE, _SWITCHED_MOST = 1.6e-11, 0.3, 0.35
"""A link faster than this, which is 16 lanes of PCIe 5.0, is switched, and a ring gets more of it
than a pair does [s/B]."""
_COUNT_PULL = 0.07
"""How far α and β of one count lie from the law."""
_BELOW, _LOOSE_PULL = 1.5, 4.0
"""The first α lies so far below the least time, as a log."""
_SHARPNESS, _SHARPNESS_PULL = 6.0, 0.7
_OVERLAP_PULL = 1.0
_APART = 4.0
"""How far apart, as a log, the protocols of a start may lie."""
_SEED = 0


class Prior(NamedTuple):
    """A normal distribution of each number of a vector."""

    centre: np.ndarray
    width: np.ndarray


def prior(cells: Cells, op: str, pieces: int) -> Prior:
    """What is known of a link of so many protocols from the extremes of its cells.

    A protocol that it does without is so slow that it never wins.
    """
    levels = 1 + int(cells.nodes.max() > 1)
    per_byte = (cells.log_time - np.log(np.maximum(cells.size, 1.0) * cells.passes)).min()
    inside = _TREE if sent_at_once(op) else _RING
    exponents = [_exponent(cells.devices / cells.nodes, inside), _exponent(cells.nodes, _TREE)]
    growth = np.log(2) * np.stack([exponents[:levels], np.zeros(levels)], axis=1)
    protocol = np.zeros((PIECES, levels, 3))
    protocol[..., 0] = cells.log_time.min() - _BELOW
    protocol[..., 1] = per_byte
    switched = _SWITCHED_SLOPE * (per_byte - np.log(_SWITCHED))
    protocol[:, 0, 2] = np.clip(switched, -_SWITCHED_MOST, 0)
    protocol[pieces:, :, :2] += _ABSENT
    pulls = np.full_like(protocol, [_LOOSE_PULL, _LOOSE_PULL, _CROWDING_PULL])
    pulls[pieces:] = _FIXED
    counts = np.zeros((2, COUNTS))
    whole = np.log([_LAUNCH, _SHARPNESS, 1.0])
    start = np.full(PIECES, np.log(_START))
    centre = Numbers(whole, growth, protocol, start, counts)
    width = Numbers(
        np.array([_LAUNCH_PULL, _SHARPNESS_PULL, _OVERLAP_PULL]),
        np.full_like(growth, np.log(2) * np.array([_ALPHA_EXPONENT_PULL, _BETA_EXPONENT_PULL])),
        pulls,
        np.full_like(start, _START_PULL),
        counts + _COUNT_PULL,
    )
    return Prior(vector_of(centre), vector_of(width))


def sent_at_once(op: str) -> bool:
    """Whether a collective's messages wait for none of each other, and so grow otherwise."""
    return op == "all_to_all"


def lent(prior: Prior, others: Iterable[tuple[np.ndarray, int]]) -> Prior:
    """A prior whose growth with N is what other collectives of the machine have.

    Args:
        prior: of cells at one N, which tell nothing of it.
        others: vector and number of protocols of each of the others.
    """
    centre, known = numbers_of(prior.centre.copy()), []
    for u, pieces in others:
        numbers = numbers_of(u)
        if numbers.growth.shape == centre.growth.shape:
            known.append(
                (numbers.whole[0], numbers.growth, numbers.protocol[:pieces, :, 2].mean(0))
            )
    if not known:
        return prior
    launch, growth, crowding = (np.mean(each, axis=0) for each in zip(*known, strict=True))
    whole = np.array([launch, *centre.whole[1:]])
    protocol = centre.protocol.copy()
    protocol[..., 2] = crowding
    return prior._replace(
        centre=vector_of(centre._replace(whole=whole, growth=growth, protocol=protocol))
    )


def starts(prior: Prior, pieces: int, count: int) -> np.ndarray:
    """(count, parameters): places to begin, protocols spread from quick ones to broad ones."""
    generator = np.random.default_rng(_SEED)
    spread = np.sort(generator.uniform(0, _APART, (2, count, pieces - 1)), axis=-1)
    begun = np.tile(prior.centre, (count, 1))
    for place, u in enumerate(begun):
        protocol = numbers_of(u).protocol
        protocol[1:pieces, :, 0] += spread[0, place, :, None]
        protocol[: pieces - 1, :, 1] += spread[1, place, ::-1, None]
    return begun


def _exponent(parts: np.ndarray, most: float) -> float:
    """How messages may be expected to grow: as a tree's of the fewest parts on, at most so much."""
    fewest = parts[parts > 1].min(initial=np.inf)
    return float(min(most, 1 / np.log(fewest)))

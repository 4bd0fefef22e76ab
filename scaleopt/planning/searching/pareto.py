"""The configurations that nothing beats in time, cost, memory and devices at once."""

from collections.abc import Sequence

import numpy as np

from scaleopt.planning.searching.configuration import Configuration
from scaleopt.planning.searching.searched import Searched


def pareto_front(sides: Sequence[Searched]) -> list[Configuration]:
    """Every configuration that keeps the limits and that no other is better than, aim by aim.

    Args:
        sides: the offers with what was found on them.

    Returns:
        The configurations, the fastest first.
    """
    found = [configuration for side in sides for configuration in _front_of(side)]
    if not found:
        return []
    priced = all(side.offer.price is not None for side in sides)
    points = np.array([[it.time, it.memory, it.devices, it.cost if priced else 0] for it in found])
    kept = np.flatnonzero(undominated(points))
    order = kept[np.lexsort(points[kept].T[::-1])]
    return [found[place] for place in order]


def undominated(points: np.ndarray) -> np.ndarray:
    """Which points no other is at least as good as in every column and better in one.

    Of equal points the first is kept.

    >>> undominated(np.array([[1.0, 2.0], [2.0, 1.0], [2.0, 2.0], [1.0, 2.0]])).tolist()
    [True, True, False, False]
    """
    kept = np.ones(len(points), bool)
    for place, point in enumerate(points):
        if not kept[place]:
            continue
        beaten = np.all(points >= point, axis=1)
        beaten[: place + 1] &= np.any(points[: place + 1] > point, axis=1)
        kept &= ~beaten
    return kept


def _front_of(side: Searched) -> list[Configuration]:
    """For each number of devices those that are fastest for the memory they hold.

    On one offer and one number of devices a shorter run is a cheaper one, so that time and memory
    are all there is to compare; what remains is little, and compared in full afterwards.
    """
    front = np.empty((4, 0))  # devices, seconds of the run, bytes, number of the configuration
    rows, options, steps = None, np.empty(0, np.int64), np.empty(0)
    for axes, devices, batch, seconds, held in side.scores():
        allowed = (held <= side.memory) & (
            seconds <= side.goal.slowest(devices, batch)[:, None] * (1 + 1e-12)
        )
        layout, option = np.nonzero(allowed)
        step = seconds[layout, option]
        time = side.goal.time(step, devices[layout], batch[layout])
        new = np.stack([devices[layout], time, held[layout, option], np.zeros(len(step))])
        front = np.concatenate([front, new], axis=1)
        fresh = axes[:, layout]
        rows = fresh if rows is None else np.concatenate([rows, fresh], axis=1)
        options, steps = np.concatenate([options, option]), np.concatenate([steps, step])
        kept = _steps_down(front[0], front[1], front[2])
        front, rows, options, steps = front[:, kept], rows[:, kept], options[kept], steps[kept]
    if rows is None:
        return []
    return [
        side.configured(rows[:, place], int(options[place]), float(steps[place]), front[2, place])
        for place in range(front.shape[1])
    ]


def _steps_down(devices: np.ndarray, time: np.ndarray, memory: np.ndarray) -> np.ndarray:
    """Places of the points that hold less than every faster one on as many devices."""
    order = np.lexsort((memory, time, devices))
    # With every number of devices a range of its own, one running minimum serves all of them.
    _, group = np.unique(devices[order], return_inverse=True)
    span = memory.max(initial=0.0) * 2 + 1
    shifted = memory[order] - group * span
    before = np.minimum.accumulate(np.concatenate([[np.inf], shifted[:-1]]))
    return order[shifted < before]

"""What the rows say at a point of the space that is searched, and how that moves with each u."""

from typing import NamedTuple

import numpy as np

from scaleopt.fitting.loss import Loss
from scaleopt.fitting.parameters import Point
from scaleopt.fitting.seconds import RowSeconds


class Place(NamedTuple):
    """A point of each table, and what the rows say there; priors are rows behind the others."""

    u: np.ndarray
    predicted: np.ndarray
    slope: np.ndarray
    """(tables, parameters, rows): ∂ predicted / ∂u."""


def look(seconds: RowSeconds, loss: Loss, known: np.ndarray, point: Point) -> Place:
    """What the model says of each row, and of each parameter that a prior is about.

    A place without a time is not a number; NumPy is to be told not to warn of it.

    Args:
        seconds: of the rows.
        loss: whether misses are of logs.
        known: places of the parameters that a prior is about.
        point: (points, parameters) in `u`.
    """
    theta, by_u = point.values(), point.slopes()
    predicted, slope = seconds.asked(theta)
    slope = slope * by_u[..., None]
    if loss.relative:
        # A step in a linear coordinate may reach a time below 0, whose log is not a number: the
        # search rejects that step. A finite residual would be one more outlier.
        slope /= predicted[:, None]
        predicted = np.log(predicted)
    if len(known):
        predicted = np.concatenate([predicted, np.log(theta[:, known])], axis=-1)
        logs = np.eye(theta.shape[-1])[:, known] * (by_u / theta)[..., None]
        slope = np.concatenate([slope, logs], axis=-1)
    return Place(point.u, predicted, slope)

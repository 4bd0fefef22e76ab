"""One law for several groups of rows, such as two clusters, some parameters each group's own.

The model becomes a dictionary of models, one a group: parameters that are shared are one number in
all of them.
"""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from scaleopt.fitting.parameters import Parameters
from scaleopt.fitting.rows import Observe


class GroupedModel(eqx.Module):
    """Seconds that each row's own model predicts."""

    observe: Observe = eqx.field(static=True)
    """The same for one model."""
    by: str = eqx.field(static=True)
    """The column that says which group a row is of."""
    labels: tuple[str, ...] = eqx.field(static=True)

    def __call__(self, models: dict[str, Any], columns: dict[str, Array]) -> Array:
        """The seconds of each row."""
        code = columns[self.by]
        of_group = [self.observe(models[label], columns) for label in self.labels]
        return jnp.select([code == place for place in range(len(of_group))], of_group)

    def coded(self, columns: dict[str, Any]) -> dict[str, Any]:
        """The columns with the groups as numbers."""
        labels = np.asarray(columns[self.by]).astype(str)
        unknown = sorted(set(labels.ravel().tolist()) - set(self.labels))
        if unknown:
            raise ValueError(
                f"{self.by} {unknown} was not fitted; the groups are {', '.join(self.labels)}"
            )
        return columns | {self.by: np.vectorize(self.labels.index, otypes=[float])(labels)}


def grouped(parameters: Parameters, labels: tuple[str, ...], own: tuple[str, ...]) -> Parameters:
    """The parameters of a dictionary of models, those in `own` apart for each group.

    Args:
        parameters: of one model.
        labels: of the groups.
        own: names of parameters.

    Raises:
        ValueError: a name that is not free.
    """
    bare = [name.partition("[")[0] for name in parameters.names]
    for name in own:
        if name not in bare:
            raise ValueError(
                f"own={name!r}: the model has no such free parameter; it has {', '.join(bare)}"
            )
    leaves = len(jax.tree.leaves(parameters.template))
    sizes = [np.size(jax.tree.leaves(parameters.template)[place]) for place in parameters.free]
    free, starts, picked, names = [], [], [], []
    for order, label in enumerate(sorted(labels)):
        for place, start, size in zip(parameters.free, parameters.starts, sizes, strict=True):
            free.append(order * leaves + place)
            apart = bare[start] in own
            if apart or order == 0:
                starts.append(len(names))
                picked += range(start, start + size)
                here = parameters.names[start : start + size]
                names += [f"{name}[{label}]" if apart else name for name in here]
            else:
                starts.append(starts[parameters.free.index(place)])
    return replace(
        parameters,
        template=dict.fromkeys(labels, parameters.template),
        free=tuple(free),
        starts=tuple(starts),
        names=tuple(names),
        units=tuple(parameters.units[place] for place in picked),
        fraction=tuple(parameters.fraction[place] for place in picked),
    )

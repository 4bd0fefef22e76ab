"""What runs alike took beyond the model, for every configuration of a search.

The misses of fitted rows are carried to what lies near them (`fitting.train_step_likeness`). How
near is a product over the axes of a distance, so what share, replicas, sequences and options say of
it are tables of their own: a tile of layouts looks them up, and the sum over the fitted rows is a
product of two matrices.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scaleopt.fitting.train_step_likeness import SHAPE, SPLIT, Misses, distance, position
from scaleopt.models.transformer import Transformer
from scaleopt.planning.searching.layouts import SHARES, Layouts
from scaleopt.planning.searching.options import Options

if TYPE_CHECKING:
    from scaleopt.fitting.result import Fit

_SAME = 1e-6
"""Doublings below which two shapes are one."""


class Near(NamedTuple):
    """Of one part of the covariance: how near to each fitted row, by what a layout is made of."""

    shares: Any
    """(shares, rows)"""
    replicas: Any
    """(replicas, rows)"""
    sequences: Any
    """(sequences, rows)"""
    options: Any
    """(options, rows): times what each row tells."""

    def expected(self, share: Any, replicas: Any, sequences: Any) -> Any:
        """The miss that rows alike make expected, (layouts, options), of places in the tables."""
        near = self.shares[share] * self.replicas[replicas] * self.sequences[sequences]
        return near @ self.options.T


class Likeness(NamedTuple):
    """What fitted rows tell of layouts with options."""

    shape: Near
    split: Near
    far: Near
    """Of splits, where both lie across nodes."""
    habit: Any
    """(shares, sequences, options): how large the habit of a layer's shape is."""

    def expected(self, places: Any, across: Any) -> Any:
        """The miss expected, log taken − log said by the model, (layouts, options).

        Args:
            places: (3, layouts), of share, replicas and sequences.
            across: (layouts,), 1 where a run spans nodes, else 0.

        Returns:
            The misses, of NumPy or JAX as the places are.
        """
        share, _, sequences = places
        habit = self.habit[share, sequences]
        shape, split, far = (near.expected(*places) for near in (self.shape, self.split, self.far))
        return habit * shape + split + across[:, None] * far


def misses_of(fit: "Fit[Any] | None", model: Transformer) -> Misses | None:
    """What a fit of training runs has missed; None of a machine that comes from no such fit.

    Args:
        fit: of the machine; None where it was given.
        model: that is planned for.

    Returns:
        The misses; those of no row at all for a mixture of experts, where all rows are dense.
    """
    misses: Misses | None = getattr(fit, "misses", None)
    if fit is None or misses is None or float(model.experts) == 1 or tells_mixtures(fit):
        return misses
    return misses.forgotten()


def tells_mixtures(fit: "Fit[Any]") -> bool:
    """Whether a row of a fit is of a mixture of experts: dense rows tell nothing of one."""
    return "experts" in fit.rows and bool((fit.rows["experts"] > 1).any())


def likeness(misses: Misses, model: Transformer, layouts: Layouts, options: Options) -> Likeness:
    """What fitted rows tell of every layout with every option.

    Args:
        misses: of the fitted rows.
        model: that is planned for.
        layouts: that are searched.
        options: that each is tried with.

    Returns:
        The tables.
    """
    share = dict(zip(SHARES, np.array(layouts.shares, float).T, strict=True))
    count = int(np.prod(options.shape))
    recompute, along, zero = map(np.asarray, options.each(np.arange(count)))
    every = np.ones(len(layouts.shares))
    parts = (
        share | {name: value * every for name, value in _of_model(model).items()},
        {"data": layouts.replicas.astype(float)},
        {"micro_batch": layouts.sequences.astype(float)},
        {"recompute": recompute, "sequence_parallel": along, "zero": zero},
    )
    told, where = misses.inverse @ misses.miss, misses.where
    habit, shape_reach, split, split_reach, far, far_reach, _ = misses.scales
    return Likeness(
        _near(SHAPE, where.shape, parts, shape_reach, habit**2 * told * where.size),
        _near(SPLIT, where.split, parts, split_reach, split**2 * told),
        _near(SPLIT, where.split, parts, far_reach, far**2 * told * where.across),
        _habits(misses, parts),
    )


def run_columns(model: Transformer, node_size: int, at: dict[str, np.ndarray]) -> dict[str, Any]:
    """Configurations as the columns that `alike` takes.

    Args:
        model: that is trained.
        node_size: devices of a node.
        at: (runs,) each, the axes of a split and its options, as counts and codes.

    Returns:
        By name (runs,) each.
    """
    every = np.ones(len(at["data"]))
    devices = at["data"] * at["tensor"] * at["context"] * at["pipeline"]
    fixed = _of_model(model) | {"node_size": float(node_size)}
    return at | {name: value * every for name, value in fixed.items()} | {"devices": devices}


def _of_model(model: Transformer) -> dict[str, float]:
    """The columns of a run that are the model's."""
    names = ("hidden", "layers", "seq_len", "fused_attention", "experts", "active_experts")
    return {name: float(np.asarray(getattr(model, name))) for name in names}


_Parts = Sequence[dict[str, np.ndarray]]


def _distances(names: Sequence[str], rows: np.ndarray, columns: dict[str, np.ndarray]) -> Any:
    """Between what is said by some columns and the fitted rows, (entries, rows)."""
    said = [name for name in names if name in columns]
    entries = len(next(iter(columns.values())))
    if not said:
        return np.zeros((entries, len(rows)))
    here = np.stack([position(name, columns[name]) for name in said], 1)
    return distance(here, rows[:, [names.index(name) for name in said]])


def _near(
    names: Sequence[str], rows: np.ndarray, parts: _Parts, reach: float, told: np.ndarray
) -> Near:
    """How near to each row; its distances add up, so what each part says is multiplied."""
    share, replicas, sequences, options = (
        np.exp(-_distances(names, rows, columns) / reach) for columns in parts
    )
    return Near(share, replicas, sequences, options * told)


def _habits(misses: Misses, parts: _Parts) -> np.ndarray:
    """How large the habit of each shape is: 1 but for the few that rows have shown."""
    share, _, sequences, options = parts
    sizes = [len(next(iter(columns.values()))) for columns in (share, sequences, options)]
    found = np.ones(sizes)
    large = misses.where.of(np.flatnonzero(misses.where.size > 1))
    same = [_distances(SHAPE, large.shape, part) < _SAME for part in (share, sequences, options)]
    for row, size in enumerate(large.size):
        found[np.ix_(*(each[:, row] for each in same))] = size
    return found

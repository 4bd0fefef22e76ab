"""From timed collectives of one machine to a link that predicts them, with honest bands.

Each collective (and type, where the table has several) is fitted with protocols of its own. How
many protocols there are is what predicts held-out rows best: every N left out in turn, or sizes
where there is one N. Those held-out misses are also the bands, so they include what the model is
wrong about; beyond the measured N they widen by what one more doubling has cost.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from scipy import special

from scaleopt.fitting.collective_search import (
    PIECES,
    Lanes,
    link_of,
    log_time,
    search,
    starts,
)
from scaleopt.fitting.fit import check_rows
from scaleopt.fitting.result import Prediction, check_level, plain
from scaleopt.models.envelope import LinkEnvelope
from scaleopt.units import format_si

PASSES = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "all_to_all": 1.0}
"""How often the array goes around."""
_FEWEST_ROWS = 5
_SIZE_FOLDS = 5
_PAD = 64
_DOUBLING = 0.2
"""How far a prediction one doubling beyond the rows is off, where the rows do not tell."""
_DOUBLING_WEIGHT = 2.0
_DEGREES = 5.0


@dataclass(frozen=True)
class CollectiveGroup:
    """One collective of one type."""

    op: str
    dtype: str
    link: LinkEnvelope
    pieces: int
    u: np.ndarray
    rows: int
    largest: float
    """The largest N fitted."""
    error: float
    """Mean |predicted / measured − 1| of the rows fitted."""
    held_out: dict[int, float]
    """For each number of protocols, the mean |log| miss of held-out rows."""
    scatter: float
    """Standard deviation, as a log, of rows at sizes that were not fitted."""
    doubling: float
    """The same of what each doubling of N beyond the rows adds."""


@dataclass(frozen=True, repr=False)
class CollectiveFit:
    """Fitted collectives of one machine; made by `fit_collective`."""

    groups: tuple[CollectiveGroup, ...]
    notes: tuple[str, ...]
    failure: str | None

    def __repr__(self) -> str:
        return f"CollectiveFit({len(self.groups)} collectives); print(fit.summary()) for more"

    @property
    def model(self) -> dict[str, LinkEnvelope]:
        """The link of each collective."""
        return {" ".join(filter(None, (g.op, g.dtype))): g.link for g in self.groups}

    def predict(
        self, table: pd.DataFrame | None = None, *, level: float = 0.9, **columns: Any
    ) -> Prediction:
        """Seconds of collectives still to be measured.

        Args:
            table: rows with `devices` and `size_bytes` [B], and `op`, `dtype` and `nodes` where the
                fitted table had several; or leave it out and give columns.
            level: the share of measurements within the range.
            columns: devices, size [B], op, dtype, nodes.

        Raises:
            ValueError: a column that is lacking or not known, or a collective that was not fitted.

        Returns:
            The time and its range.
        """
        check_level(level)
        if table is None:
            unknown = set(columns) - {"devices", "size", "op", "dtype", "nodes"}
            if unknown or not {"devices", "size"} <= set(columns):
                raise ValueError(
                    "predict takes devices and size, and op, dtype and nodes where there are "
                    f"several; it was given {sorted(columns)}"
                )
            shape = np.broadcast_shapes(*(np.shape(value) for value in columns.values()))
            flat = {name: np.broadcast_to(value, shape).ravel() for name, value in columns.items()}
            table = pd.DataFrame(flat).rename(columns={"size": "size_bytes"})
        else:
            shape = (len(table),)
        lacking = {"devices", "size_bytes"} - set(table)
        if lacking:
            raise ValueError(f"the rows lack {sorted(lacking)}; add the columns")
        time, reach = np.full(len(table), np.nan), np.full(len(table), np.inf)
        if not self.failure:
            chosen = self._group_of(table)
            for place, group in enumerate(self.groups):
                mask = chosen == place
                if mask.any():
                    time[mask], reach[mask] = _predicted(group, table[mask], level)
        with np.errstate(over="ignore", invalid="ignore"):
            low = np.nan_to_num(time * np.exp(-reach), nan=0.0)
            high = np.where(np.isnan(time), np.inf, time * np.exp(reach))
        return Prediction(*(each.reshape(shape) for each in (time, low, high)))

    def summary(self) -> str:
        """What was chosen for each collective and how well it predicts, as plain text."""
        if self.failure:
            return f"the fit failed: {self.failure}"
        lines = []
        for group in self.groups:
            link = group.link
            name = " ".join(filter(None, (group.op, group.dtype)))
            tried = ", ".join(f"{100 * v:.3g} % with {k}" for k, v in group.held_out.items())
            lines.append(
                f"{name}: {group.rows} rows, {group.pieces} protocols, mean error "
                f"{100 * group.error:.2g} %; held-out rows missed by {tried}"
            )
            lines.append(f"  launch {format_si(float(link.launch), 's')}")
            for alpha, beta, a, b in zip(
                *map(np.atleast_1d, (link.alpha, link.beta, link.alpha_growth, link.beta_growth)),
                strict=True,
            ):
                lines.append(
                    f"  α {format_si(float(alpha), 's')} ∝ N^{np.log2(a):.2f}, "
                    f"1/β {format_si(float(1 / beta), 'B/s')} ∝ N^{-np.log2(b):.2f}"
                )
        return "\n".join([*lines, *self.notes])

    def _group_of(self, table: pd.DataFrame) -> np.ndarray:
        """Which group each row belongs to."""
        chosen = np.full(len(table), -1)
        for place, group in enumerate(self.groups):
            mask = np.ones(len(table), bool)
            for column, own in (("op", group.op), ("dtype", group.dtype)):
                if column in table:
                    mask &= table[column].fillna("").astype(str).to_numpy() == own
            if (chosen[mask] >= 0).any():
                raise ValueError("several collectives were fitted; say op and dtype of each row")
            chosen[mask] = place
        if (chosen < 0).any():
            raise ValueError(f"a row is of none of the fitted collectives {list(self.model)}")
        return chosen


def fit_collective(table: pd.DataFrame) -> CollectiveFit:
    """Fit the collectives of one machine, each with as many protocols as the rows support.

    Minimises Huber's loss of log measured − log predicted of a `LinkEnvelope`, with weak log-normal
    priors on how its messages (∝ N^0.7) and β (constant) grow with N.

    Args:
        table: rows with `op`, `devices`, `size_bytes` [B] of the full array and `time_s` [s];
            `dtype` and `nodes` where known. Rows of size 0 are left out.

    Returns:
        The fit; `failure` says why where there are too few rows.

    Raises:
        ValueError: a missing column or cell, a time that is not positive, no known collective.
        TypeError: something that is not a table.

    >>> from scaleopt.models.collectives import all_reduce_time
    >>> works = [(n, m) for n in (2, 4, 8) for m in (1e3, 1e5, 1e7, 1e9)]
    >>> table = pd.DataFrame(works, columns=["devices", "size_bytes"]).assign(op="all_reduce")
    >>> table["time_s"] = [float(all_reduce_time(m, n, 5e-6, 1e-11)) for n, m in works]
    >>> found = fit_collective(table).predict(devices=8, size=1e8)
    >>> bool(found.low < all_reduce_time(1e8, 8, 5e-6, 1e-11) < found.high)
    True

    Source: the model of `LinkEnvelope`; M. Stone, "Cross-validatory choice and assessment of
    statistical predictions", JRSS B 36, 1974.
    """
    if not isinstance(table, pd.DataFrame):
        raise TypeError(
            f"fit_collective takes a table, not {type(table).__name__}; "
            "give read_measurements(path).table"
        )
    check_rows(table, ["time_s", "devices", "size_bytes"])
    used = table["op"].isin(PASSES) & (table["size_bytes"] > 0) & (table["devices"] > 1)
    if not table["op"].isin(PASSES).any():
        raise ValueError(f"no row of a collective ({', '.join(PASSES)}); found {set(table['op'])}")
    rows = table[used].copy()
    rows["dtype"] = rows["dtype"].fillna("").astype(str) if "dtype" in rows else ""
    notes = [f"{(~used).sum()} rows of another kind, of size 0 or of one device are not used."]
    notes = notes if (~used).any() else []
    parts = {(str(o), str(d)): part for (o, d), part in rows.groupby(["op", "dtype"], sort=False)}
    few = [
        f"{o} {d}".strip()
        for (o, d), part in parts.items()
        if _cells(part) < _FEWEST_ROWS or part["size_bytes"].nunique() < 3
    ]
    if few or not parts:
        failure = (
            f"{', '.join(few) or 'the table'} has too few rows to tell a latency from a bandwidth; "
            f"measure at least {_FEWEST_ROWS} cells of N and size, with 3 sizes or more"
        )
        return CollectiveFit((), tuple(notes), failure)
    for (op, dtype), part in parts.items():
        if len(part["devices"].unique()) < 2:
            notes.append(
                f"{op} {dtype}".strip() + f" has one N ({part['devices'].iloc[0]:g}): how it grows "
                "with N is the prior's, not the rows'. Time it at another N."
            )
    return CollectiveFit(
        tuple(_fitted(op, dtype, part) for (op, dtype), part in parts.items()), tuple(notes), None
    )


def _cells(part: pd.DataFrame) -> int:
    return len(part[["devices", "size_bytes"]].drop_duplicates())


def _lanes(part: pd.DataFrame, op: str) -> Lanes:
    """The rows of a group as arrays."""
    devices = part["devices"].to_numpy(float)
    size = part["size_bytes"].to_numpy(float)
    nodes = part["nodes"].to_numpy(float) if "nodes" in part else np.ones(len(part))
    time = part["time_s"].to_numpy(float) if "time_s" in part else np.ones(len(part))
    return Lanes(
        devices,
        nodes,
        size / devices if op == "all_to_all" else size,
        np.full(len(part), PASSES[op]),
        np.log(time),
        np.ones(len(part)),
    )


def _fitted(op: str, dtype: str, part: pd.DataFrame) -> CollectiveGroup:
    """Fit one group with every number of protocols, all rows and every fold of them."""
    rows = _lanes(part, op)
    folds, beyond = _folds(rows)
    count = len(part)
    padding = -count % _PAD
    padded = Lanes(*(np.pad(np.asarray(each), (0, padding), mode="edge") for each in rows))
    weights, begun, width = [], [], []
    for pieces in range(1, PIECES + 1):
        for left_out in [np.zeros(count, bool), *folds]:
            weight = np.pad((~left_out).astype(float), (0, padding))
            start, pull = starts(padded._replace(weight=weight), pieces)
            weights.append(weight)
            begun.append(start)
            width.append(pull)
    lanes = len(weights)
    spread = Lanes(*(np.broadcast_to(each, (lanes, count + padding)) for each in padded))
    with jax.enable_x64(True):
        arrays = Lanes(*map(jnp.asarray, spread._replace(weight=np.array(weights))))
        found = search(arrays, jnp.asarray(np.array(begun)), jnp.asarray(np.array(width)))
    miss = np.asarray(rows.log_time) - np.asarray(found.log_predicted)[:, :count]
    miss = miss.reshape(PIECES, 1 + len(folds), count)
    held = {
        pieces: float(
            np.mean([np.mean(np.abs(miss[pieces - 1, 1 + f][m])) for f, m in enumerate(folds)])
        )
        for pieces in range(1, PIECES + 1)
    }
    pieces = min(held, key=held.__getitem__)
    best = miss[pieces - 1]
    u = np.asarray(found.u).reshape(PIECES, 1 + len(folds), -1)[pieces - 1, 0]
    inside = np.concatenate(
        [best[1 + f][m] for f, m in enumerate(folds) if not beyond[f]] or [best[0]]
    )
    scatter = max(_deviation(inside), _deviation(best[0]), 1e-3)
    steps = [
        np.sqrt(max(_deviation(best[1 + f][m]) ** 2 - scatter**2, 0.0)) / beyond[f]
        for f, m in enumerate(folds)
        if beyond[f]
    ]
    seen = float(np.sum(np.square(steps)))
    doubling = np.sqrt((seen + _DOUBLING_WEIGHT * _DOUBLING**2) / (len(steps) + _DOUBLING_WEIGHT))
    with jax.enable_x64(True):
        used = jnp.asarray(u[: 2 + (len(u) - 2) // PIECES * pieces])
        link = plain(jax.tree.map(np.asarray, link_of(used, pieces)))
    return CollectiveGroup(
        op,
        dtype,
        link,
        pieces,
        u,
        count,
        float(np.max(rows.devices)),
        float(np.mean(np.abs(np.expm1(-best[0])))),
        held,
        scatter,
        float(doubling),
    )


def _folds(rows: Lanes) -> tuple[list[np.ndarray], list[float]]:
    """Which rows each fold leaves out, and how many doublings of N it predicts beyond the rest."""
    sizes = np.unique(rows.size, return_inverse=True)[1]
    folds = [sizes % _SIZE_FOLDS == fold for fold in range(_SIZE_FOLDS)]
    folds = [left_out for left_out in folds if left_out.any() and not left_out.all()]
    beyond = [0.0] * len(folds)
    largest = np.unique(rows.devices)[::-1]
    for below in largest[1:3]:
        kept = np.asarray(rows.devices) <= below
        if kept.sum() >= _FEWEST_ROWS:
            folds.append(~kept)
            beyond.append(float(np.log2(largest[0] / below)))
    return folds, beyond


def _deviation(miss: np.ndarray) -> float:
    """The standard deviation that 90 % of the misses say."""
    return float(np.quantile(np.abs(miss), 0.9) / special.stdtrit(_DEGREES, 0.95))


def _predicted(
    group: CollectiveGroup, table: pd.DataFrame, level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of the rows of a group, and the |log| reach of their range."""
    rows = _lanes(table.drop(columns="time_s", errors="ignore"), group.op)
    with jax.enable_x64(True):
        predicted = np.asarray(log_time(jnp.asarray(group.u), Lanes(*map(jnp.asarray, rows))))
    further = np.maximum(np.log2(np.asarray(rows.devices) / group.largest), 0.0)
    deviation = np.hypot(group.scatter, group.doubling * further)
    return np.exp(predicted), special.stdtrit(_DEGREES, 0.5 + level / 2) * deviation

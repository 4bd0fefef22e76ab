"""Fitted collectives of one machine: what each takes, and how far to trust it."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import pandas as pd
from scipy import special

from scaleopt.fitting.collective_habits import Habits, places_in, recalled
from scaleopt.fitting.collective_rows import Cells, places_of
from scaleopt.fitting.collective_search import log_times, padded
from scaleopt.fitting.result import Prediction, check_level
from scaleopt.models.envelope import LinkEnvelope
from scaleopt.units import format_si

DEGREES = 5.0


@dataclass(frozen=True)
class CollectiveGroup:
    """One collective of one type."""

    op: str
    dtype: str
    link: LinkEnvelope
    pieces: int
    u: np.ndarray
    habits: Habits
    """What the link misses, by size and N."""
    rows: int
    error: float
    """Mean |predicted / measured − 1| of the rows fitted."""
    held_out: dict[int, float]
    """For each number of protocols, the mean |log| miss of held-out cells."""
    inflation: float
    """By how much held-out sizes scatter more than the habits say."""
    repeats: float
    """Standard deviation, as a log, of repeats of one cell."""
    doubling: float
    """Standard deviation, as a log, of what each doubling of N beyond the rows adds."""
    fewest: float
    """The smallest N fitted."""
    most: float
    """The largest N fitted."""
    per_node: float
    """The most devices in a node that were fitted; infinite where no row says so."""

    def log_prediction(self, rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Log seconds of rows, and the standard deviation of a measurement there."""
        nodes = rows["nodes"] if "nodes" in rows else pd.Series(np.nan, rows.index)
        inferred = np.maximum(np.ceil(rows["devices"] / self.per_node), 1.0)
        cells = places_of(rows.assign(nodes=nodes.fillna(inferred)), self.op)
        law = log_prediction(self.u[None], cells)[0]
        habit, deviation = recalled(self.habits, places_in(cells))
        above, below = np.log2(cells.devices / self.most), np.log2(self.fewest / cells.devices)
        further = np.maximum(np.maximum(above, below), 0.0)
        noise = np.hypot(self.inflation * deviation, self.repeats)
        return law + habit, np.hypot(noise, self.doubling * further)


def log_prediction(u: np.ndarray, cells: Cells) -> np.ndarray:
    """(lanes, cells): log seconds by the law of each vector alone."""
    with jax.enable_x64(True):
        return np.asarray(log_times(u, padded(cells)))[:, : len(cells.size)]


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
        log_time, deviation = np.full(len(table), np.nan), np.full(len(table), np.inf)
        if not self.failure:
            chosen = self._group_of(table)
            for place, group in enumerate(self.groups):
                mask = chosen == place
                if mask.any():
                    log_time[mask], deviation[mask] = group.log_prediction(table[mask])
        reach = special.stdtrit(DEGREES, 0.5 + level / 2) * deviation
        with np.errstate(over="ignore", invalid="ignore"):
            low = np.nan_to_num(np.exp(log_time - reach), nan=0.0)
            high = np.where(np.isnan(log_time), np.inf, np.exp(log_time + reach))
        return Prediction(*(each.reshape(shape) for each in (np.exp(log_time), low, high)))

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

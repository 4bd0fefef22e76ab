"""Fitted collectives of one machine: what each takes, and how far to trust it."""

from dataclasses import dataclass, fields
from typing import Any

import jax
import numpy as np
import pandas as pd
from scipy import special

from scaleopt.fitting.collective_habits import Habits, places_in, recalled
from scaleopt.fitting.collective_link import log_time
from scaleopt.fitting.collective_rows import Cells, blocks_of, places_of, readied
from scaleopt.fitting.collective_search import padded
from scaleopt.fitting.columns import check_columns
from scaleopt.fitting.prediction import Prediction
from scaleopt.fitting.provenance import Provenance
from scaleopt.fitting.ranges import check_level
from scaleopt.models.envelope import LinkEnvelope
from scaleopt.units import format_si

DEGREES = 5.0


@dataclass(frozen=True)
class CollectiveGroup:
    """One collective of one type."""

    op: str
    dtypes: tuple[str, ...]
    """The types that share it; "" where the rows did not say."""
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

    @property
    def name(self) -> str:
        """The collective and its types."""
        return named(self.op, self.dtypes)

    def log_prediction(self, rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Log seconds of readied rows, and the standard deviation of a measurement there."""
        cells = places_of(rows, self.op)
        law = log_prediction(self.u, cells)
        habit, deviation = recalled(self.habits, places_in(cells))
        above, below = np.log2(cells.devices / self.most), np.log2(self.fewest / cells.devices)
        further = np.maximum(np.maximum(above, below), 0.0)
        noise = np.hypot(self.inflation * deviation, self.repeats)
        return law + habit, np.hypot(noise, self.doubling * further)


def named(op: str, dtypes: tuple[str, ...]) -> str:
    """A collective and its types in words."""
    return f"{op} {', '.join(dtypes)}".strip()


def log_prediction(u: np.ndarray, cells: Cells) -> np.ndarray:
    """(cells,): log seconds by the law alone."""
    with jax.enable_x64(True):
        found = [
            np.asarray(log_time(u, padded(block)))[: len(block.size)] for block in blocks_of(cells)
        ]
    return np.concatenate(found)


@dataclass(frozen=True, repr=False)
class CollectiveFit:
    """Fitted collectives of one machine; made by `fit_collective`."""

    groups: tuple[CollectiveGroup, ...]
    untold: tuple[tuple[str, tuple[str, ...]], ...]
    """The op and types of which there were too few rows: their times are not known."""
    notes: tuple[str, ...]
    failure: str | None

    def __repr__(self) -> str:
        return f"CollectiveFit({len(self.groups)} collectives); print(fit.summary()) for more"

    @property
    def model(self) -> dict[str, LinkEnvelope]:
        """The link of each collective."""
        return {group.name: group.link for group in self.groups}

    @property
    def provenance(self) -> dict[str, Provenance]:
        """Where each constant is from, by collective and name, as "all_reduce.alpha".

        Fitted to the rows; assumed where it is left at what keeps its term out; not told where the
        rows of a collective were too few.
        """
        found: dict[str, Provenance] = {}
        for group in self.groups:
            for field in fields(LinkEnvelope):
                left_out = np.all(getattr(group.link, field.name) == field.default)
                found[f"{group.name}.{field.name}"] = "assumed" if left_out else "fitted"
        for op, dtypes in self.untold:
            names = (f"{named(op, dtypes)}.{field.name}" for field in fields(LinkEnvelope))
            found |= dict.fromkeys(names, "not told")
        return found

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
            ValueError: a column that is lacking or not known, a number that none can be, such as a
                size below 0, or a collective that was not fitted.

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
        check_columns({"devices": table["devices"], "size": table["size_bytes"]})
        log_time, deviation = np.full(len(table), np.nan), np.full(len(table), np.inf)
        if not self.failure:
            chosen = self._group_of(readied(table))
            for place, group in enumerate(self.groups):
                mask = chosen == place
                if mask.any():
                    rows = readied(table[mask], group.per_node)
                    log_time[mask], deviation[mask] = group.log_prediction(rows)
                    log_time[mask] += np.log(rows["operations"].to_numpy(float))
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
            tried = ", ".join(f"{100 * v:.3g} % with {k}" for k, v in group.held_out.items())
            protocols = f"{group.pieces} protocol{'' if group.pieces == 1 else 's'}"
            lines.append(
                f"{group.name}: {group.rows} rows, {protocols}, mean error "
                f"{100 * group.error:.2g} %; held-out rows missed by {tried}"
            )
            lines.append(
                f"  launch {format_si(float(link.launch), 's')}, messages "
                f"∝ N^{np.log2(float(link.alpha_growth)):.2f}"
            )
            pieces = (link.alpha, link.start, link.beta, link.crowding)
            for alpha, start, beta, crowding in zip(*map(np.atleast_1d, pieces), strict=True):
                lines.append(
                    f"  α {format_si(alpha, 's')}, {format_si(start, 's')} besides, "
                    f"1/β {format_si(1 / beta, 'B/s')} of a pair, "
                    f"{format_si(1 / (beta * crowding), 'B/s')} of many"
                )
        return "\n".join([*lines, *self.notes])

    def _group_of(self, rows: pd.DataFrame) -> np.ndarray:
        """Which group each readied row belongs to; −1 where its group had too few rows."""
        chosen = np.full(len(rows), -1)
        op, dtype = rows["op"].to_numpy(str), rows["dtype"].to_numpy(str)
        for place, group in enumerate(self.groups):
            mask = (op == group.op) | (op == "")
            if "" not in group.dtypes:
                mask &= np.isin(dtype, ["", *group.dtypes])
            if (chosen[mask] >= 0).any():
                raise ValueError(
                    f"several collectives were fitted ({', '.join(self.model)}); say op and dtype "
                    "of each row"
                )
            chosen[mask] = place
        told = [(op, dtype) for op, dtypes in self.untold for dtype in dtypes]
        few = [each in told for each in zip(op, dtype, strict=True)]
        if ((chosen < 0) & ~np.array(few, bool)).any():
            raise ValueError(f"a row is of none of the fitted collectives {list(self.model)}")
        return chosen

"""What to look at before a fit is believed: its residuals, and measured against predicted.

Residuals are measured over predicted on a log axis, since that is what a fit makes small; about a
right model they lie alike everywhere. A slope, an arc or a step of cell medians (white) is
something that the model does not know; medians on the line and rows far from it are noise.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from scaleopt.fitting.collective_result import CollectiveFit
from scaleopt.fitting.result import Fit
from scaleopt.show.diagnostics_panels import predicted_panels, residual_strips
from scaleopt.show.diagnostics_rows import rows_against
from scaleopt.show.diagnostics_valley import valley_panel


def draw_residuals(
    fit: Fit[Any] | CollectiveFit, table: pd.DataFrame | None = None, *, level: float = 0.9
) -> Figure:
    """Measured over predicted, against size and against N, a strip for each kind of row.

    Args:
        fit: from `fit`, `calibrate` or `fit_collective`.
        table: rows to hold it against, such as some that were not fitted; a `CollectiveFit`, which
            keeps no rows, needs them. The rows fitted unless given.
        level: the share of measurements within the range that is shaded.

    Returns:
        The figure: every row, the median of each cell in white, the range that the fit states, as
        it is in the median over the rows at an abscissa, and crossed out the rows that have no say.

    Raises:
        ValueError: a fit that failed, or no row to draw.
        TypeError: something that is not such a fit.

    >>> from jax.tree_util import Partial
    >>> from scaleopt.fitting.fit import fit
    >>> table = pd.DataFrame({"op": "step", "devices": [1, 2, 4, 8], "time_s": [9.1, 5, 2.9, 2]})
    >>> def amdahl(devices, *, serial, work):
    ...     return serial + work / devices
    >>> figure = draw_residuals(fit(Partial(amdahl, serial=2.0, work=5.0), table))
    >>> figure.get_suptitle()
    '100 % of 4 rows lie in the range that the fit states for 90 %'
    """
    rows = rows_against(fit, table, level)
    figure = _figure(11.0, 1.0 + 2.6 * rows["op"].nunique())
    residual_strips(figure, rows, level)
    return figure


def draw_predicted(
    fit: Fit[Any] | CollectiveFit, table: pd.DataFrame | None = None, *, level: float = 0.9
) -> Figure:
    """Measured against predicted time with the range of a measurement, a panel for each kind.

    Args:
        fit: from `fit`, `calibrate` or `fit_collective`.
        table: rows to hold it against; see `draw_residuals`.
        level: the share of measurements within the range.

    Returns:
        The figure; on the line a row takes what was predicted.

    Raises:
        ValueError: a fit that failed, or no row to draw.
        TypeError: something that is not such a fit.
    """
    rows = rows_against(fit, table, level)
    figure = _figure(1.5 + 3.6 * min(rows["op"].nunique(), 3), 4.6)
    predicted_panels(figure, rows, level)
    return figure


def save_diagnostics(fit: Fit[Any], path: str | Path, level: float = 0.95) -> None:
    """Residuals, predictions and the valley of the two most confounded parameters, in one file.

    Args:
        fit: from `fit` or `calibrate`, not failed.
        path: such as "diagnostics.png" or "diagnostics.svg".
        level: the share of measurements within the ranges.
    """
    rows = rows_against(fit, None, level)
    kinds = rows["op"].nunique()
    figure = _figure(13.0, 1.4 + 2.6 * kinds + 4.4)
    above, below = np.asarray(figure.subfigures(2, 1, height_ratios=(0.9 + 2.6 * kinds, 4.9)))
    residual_strips(above, rows, level)
    if len(fit.names) > 1:
        left, right = np.asarray(below.subfigures(1, 2, width_ratios=(max(kinds, 1.5), 1.7)))
        predicted_panels(left, rows, level)
        valley_panel(right, fit)
    else:
        predicted_panels(below, rows, level)
    figure.savefig(path)


def _figure(width: float, height: float) -> Figure:
    return Figure(figsize=(width, height), layout="constrained", dpi=130)

"""What is said of collectives that were timed alone, for people and for programs."""

from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd

from scaleopt.fitting.collective_result import CollectiveFit
from scaleopt.show.diagnostics_rows import rows_against
from scaleopt.show.origin import origin_of_rows
from scaleopt.show.text import heading, listing, measured_against_predicted


def report_collectives(
    fit: CollectiveFit, table: pd.DataFrame, context: dict[str, Any], level: float = 0.95
) -> str:
    """The report of a fit as text.

    Args:
        fit: from `fit_collective`.
        table: the rows fitted.
        context: of the table.
        level: of the ranges.
    """
    parts = [heading(context), fit.summary()]
    if not fit.failure:
        parts.append(measured_against_predicted(rows_against(fit, table, level), level))
    lines = [f"measured: {'; '.join([_rows(table), *origin_of_rows(context)])}"]
    for group in fit.groups:
        every = (field.name for field in fields(group.link))
        told = [name for name in every if fit.provenance[f"{group.name}.{name}"] == "fitted"]
        lines.append(f"fitted: {', '.join(told)} of {group.name}, to these rows")
    return "\n\n".join([*parts, listing("Where the numbers are from:", lines)])


def record_collectives(
    fit: CollectiveFit, table: pd.DataFrame, context: dict[str, Any], level: float = 0.95
) -> dict[str, Any]:
    """The same for programs: plain dictionaries, numbers in SI, ready for JSON."""
    inside = None
    if not fit.failure:
        inside = float(rows_against(fit, table, level)["inside"].mean())
    return {
        "level": level,
        "failure": fit.failure,
        "collectives": {
            group.name: {
                "rows": group.rows,
                "protocols": group.pieces,
                "mean_error": group.error,
                "constants": {
                    field.name: {
                        "value": np.asarray(getattr(group.link, field.name)).tolist(),
                        "provenance": fit.provenance[f"{group.name}.{field.name}"],
                    }
                    for field in fields(group.link)
                },
            }
            for group in fit.groups
        },
        "inside": inside,
        "notes": list(fit.notes),
        "context": context,
    }


def _rows(table: pd.DataFrame) -> str:
    counts = table["op"].value_counts(sort=False)
    return f"{', '.join(f'{count} {op}' for op, count in counts.items())} rows"

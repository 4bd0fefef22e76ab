"""Where the numbers that are shown are from: measured, fitted, printed by a maker, or assumed."""

from typing import Any

from scaleopt.data.catalog import catalog
from scaleopt.fitting.provenance import rows_of
from scaleopt.fitting.result import Fit
from scaleopt.planning.devices.choice import DeviceChoice
from scaleopt.units import format_si

_MACHINE = ("table", "device_kind", "processor", "date")
"""What a context says that names a machine; of a log all its own words are given."""


def origin_of_rows(context: dict[str, Any]) -> list[str]:
    """Which logs rows were read of, or on which machine they were timed.

    >>> imported = {"file": "a.log", "format": "nccl-tests", "lines": 90, "skipped": 2}
    >>> origin_of_rows({"imported": imported, "nccl": "2.20.5", "notes": []})
    ['rows from a.log (nccl-tests; 2 of 90 lines skipped); nccl 2.20.5']
    """
    logs = context.get("joined") or [context[key] for key in ("imported",) if key in context]
    read = [
        f"{it['file']} ({it['format']}; {it['skipped']} of {it['lines']} lines skipped)"
        for it in logs
    ]
    words = [f"rows from {', '.join(read)}"] if read else []
    words += [
        f"{name.replace('_', ' ')} {value}"
        for name, value in context.items()
        if isinstance(value, str) and (read or name in _MACHINE)
    ]
    return ["; ".join(words)] if words else []


_DTYPES = {"float64": "fp64", "bfloat16": "bf16", "float16": "fp16", "int8": "int8"}
"""The catalogue's name of a type; float32 may be computed as tf32, and is compared with neither."""


def beside_the_datasheet(fit: Fit[Any], context: dict[str, Any]) -> list[str]:
    """What share of the printed rate and bandwidth was reached, where the device is catalogued."""
    try:
        device = catalog(str(context["device_kind"]))
    except (KeyError, ValueError):
        return []
    rows, where = fit.rows, fit.provenance
    dtypes = set(rows["dtype"].dropna()) if "dtype" in rows else set()
    dtype = _DTYPES.get(dtypes.pop()) if len(dtypes) == 1 else None
    said, rate = [], device.get(dtype) if dtype else None
    if rate is not None and where.get("rate") == "fitted":
        share = fit.model.rate / rate.value
        said.append(f"rate is {100 * share:.0f} % of the {device.name}'s {dtype}: {rate}")
    link = device.get("link_bandwidth")
    one_node = "nodes" in rows and rows["nodes"].max() == 1
    if link is not None and one_node and where.get("beta") == "fitted" and fit.model.beta > 0:
        reached = 1 / fit.model.beta
        said.append(
            f"1/beta, {format_si(reached, 'B/s')}, is {100 * reached / link.value:.0f} % of the "
            f"{device.name}'s links: {link}"
        )
    return said


def origin(
    fit: Fit[Any], choice: DeviceChoice | None, context: dict[str, Any]
) -> dict[str, list[str]]:
    """What is measured, fitted and assumed of everything that is concluded.

    Args:
        fit: from `calibrate`.
        choice: what was decided, where there was a workload to decide for.
        context: of the table that was fitted.

    Returns:
        Sentences by provenance; a datasheet's numbers stand beside the fitted ones, in none.
    """
    where = fit.provenance
    fitted = [name for name, it in where.items() if it == "fitted"]
    fixed = [name for name, it in where.items() if it == "assumed"]
    measured = [rows_of(fit), *origin_of_rows(context)]
    reckoned = [f"{', '.join(fitted)}, to these rows"] if fitted else []
    assumed = [f"{name} = {getattr(fit.model, name, 0):g}" for name in fixed]
    if choice is not None:
        if fitted and not choice.open:
            reckoned.append("N*, the best number, times, shares and ranges, from these parameters")
        given = "no step of this work and size was measured: they are as you gave them"
        if not choice.measured:
            assumed.append(given)
    return {
        "measured": measured,
        "fitted": reckoned,
        "assumed": assumed,
        "datasheet": beside_the_datasheet(fit, context),
    }

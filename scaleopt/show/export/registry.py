"""The formats by name, and the one way in."""

from collections.abc import Callable
from typing import Any, Literal

from scaleopt.fitting.result import Fit
from scaleopt.models.step import StepTime
from scaleopt.show.export.astra_sim import astra_sim
from scaleopt.show.export.calculon import calculon
from scaleopt.show.export.constants import Constants, Export, constants
from scaleopt.show.export.nccl import nccl
from scaleopt.show.export.plain import plain
from scaleopt.show.export.simai import simai
from scaleopt.show.export.skypilot import skypilot
from scaleopt.show.export.taccl import taccl
from scaleopt.show.export.xla import xla

Format = Literal["xla", "nccl", "calculon", "astra-sim", "taccl", "simai", "skypilot", "json"]
FORMATS: dict[str, Callable[[Constants], Export]] = {
    "xla": xla,
    "nccl": nccl,
    "calculon": calculon,
    "astra-sim": astra_sim,
    "taccl": taccl,
    "simai": simai,
    "skypilot": skypilot,
    "json": plain,
}
"""What writes each format."""


def export(
    fit: Fit[StepTime],
    format: Format,
    *,
    level: float = 0.95,
    context: dict[str, Any] | None = None,
) -> str:
    """A fit as the constants that another tool asks for.

    Each constant goes with its interval and where it is from, in comments or a key of its own
    where the format has room; so does what the format cannot express.

    Args:
        fit: from `calibrate`.
        format: "xla" (flag of its latency estimator), "nccl" (CSV of the example tuner plug-in),
            "calculon" (system JSON), "astra-sim" (network YAML), "taccl" (link profile), "simai"
            (bus bandwidths), "skypilot" (a Python function), or "json" (everything, in SI).
        level: of the intervals.
        context: of the table that was fitted, such as `read_log` returns it, to be named as
            origin.

    Returns:
        The file's text.

    Raises:
        ValueError: an unknown format, a fit that failed, or one that does not tell what the format
            needs.
        TypeError: a fit of another model than StepTime.

    >>> import pandas as pd
    >>> from scaleopt.fitting.calibrate import calibrate
    >>> rows = [(n, m, 2 * (n - 1) * (8e-6 + m / n / 25e9)) for n in (2, 4) for m in (1e3, 1e9)]
    >>> table = pd.DataFrame(rows, columns=["devices", "size_bytes", "time_s"])
    >>> fit = calibrate(table.assign(op="all_reduce", nodes=table["devices"]))
    >>> text = export(fit, "xla")
    >>> print(text.splitlines()[0])
    # scaleopt ...: fitted to 4 all_reduce rows on 2 and 4 devices
    >>> print(text.splitlines()[-1])
    --xla_gpu_analytical_latency_estimator_options=nic_speed_gbps=25.625,...rtt_us=7,...

    Source: each format's module names the files of its project that it was held against.
    """
    return exported(fit, format, level=level, context=context).text


def exported(
    fit: Fit[StepTime],
    format_: str,
    *,
    level: float = 0.95,
    context: dict[str, Any] | None = None,
) -> Export:
    """The same, with what the format cannot express apart."""
    check_format(format_)
    found = constants(fit, level, context)
    if format_ != "json":
        found.need("beta")
    if format_ not in ("json", "xla", "simai"):
        found.need("alpha")
    return FORMATS[format_](found)


def check_format(format_: str) -> None:
    """Refuse a format that nothing here writes."""
    if format_ not in FORMATS:
        raise ValueError(f"format {format_!r} is not known; use one of {', '.join(FORMATS)}")

"""The formats by name, and the one way in."""

from collections.abc import Callable

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


def export(fit: Fit[StepTime], format_: str, level: float = 0.95) -> Export:
    """A fit as the constants of another tool.

    Args:
        fit: from `calibrate`.
        format_: one of `FORMATS`.
        level: of the intervals that go with the constants.

    Returns:
        The text, what it cannot express, and the JSON to lie beside it where it has no comments.

    Raises:
        ValueError: an unknown format, a fit that failed, or one that does not tell what the format
            needs.
    """
    if format_ not in FORMATS:
        raise ValueError(f"format {format_!r} is not known; use one of {', '.join(FORMATS)}")
    found = constants(fit, level)
    if format_ != "json":
        found.need("beta")
    if format_ not in ("json", "xla", "simai"):
        found.need("alpha")
    return FORMATS[format_](found)

"""The same result for programs: plain dictionaries, numbers in SI, ready for JSON."""

import math
from typing import Any

from scaleopt.fitting.propagate import Estimate
from scaleopt.fitting.result import Fit
from scaleopt.models.step import StepTime
from scaleopt.planning.choice import DeviceChoice
from scaleopt.show.remarks import remarks

RECORD_VERSION = 1


def record(
    fit: Fit[StepTime],
    choice: DeviceChoice | None,
    context: dict[str, Any],
    level: float = 0.95,
) -> dict[str, Any]:
    """Everything that was concluded; infinities and unknowns are null, since JSON has no word.

    Args:
        fit: from `calibrate`.
        choice: what was decided, where there was a workload to decide for.
        context: of the table that was fitted.
        level: of the intervals.
    """
    low, high = fit.ranges(level)
    return {
        "version": RECORD_VERSION,
        "level": level,
        "failure": fit.failure,
        "parameters": {
            name: {
                "value": _number(fit.estimate[place]),
                "low": _number(low[place]),
                "high": _number(high[place]),
                "unit": fit.parameters.units[place],
                "identified": not (fit.failure or bool(fit.covariance.unseen[place])),
            }
            for place, name in enumerate(fit.names)
        },
        "kinds": {
            kind.name: {
                "rows": kind.rows,
                "outliers": kind.outliers,
                "repeat_noise": _number(kind.repeat_noise),
                "misfit": _number(kind.misfit),
                "round_shift": _number(kind.round_shift),
            }
            for kind in fit.noise
        },
        "choice": None if choice is None else _choice(choice),
        "unidentified": list(fit.unidentified),
        "careful": remarks(fit, choice, context)["What to be careful about:"],
        "notes": list(fit.notes),
        "context": context,
    }


def _choice(choice: DeviceChoice) -> dict[str, Any]:
    return {
        "flops": choice.flops,
        "size_bytes": choice.size,
        "optimal_devices": _estimate(choice.optimal),
        "best_devices": _estimate(choice.best),
        "max_devices": choice.max_devices,
        "measured_devices": choice.measured_devices,
        "time_s": {
            "value": _number(choice.time.time),
            "low": _number(choice.time.low),
            "high": _number(choice.time.high),
        },
        "speedup": _number(choice.speedup),
        "slowdown_at_double": _number(choice.slowdown_at_double),
        "shares": {name: _number(share) for name, share in choice.shares.items()},
        "limit": choice.limit,
        "measured_s": {str(devices): seconds for devices, seconds in choice.measured.items()},
        "contradiction": choice.contradiction,
        "open": choice.open,
    }


def _estimate(estimate: Estimate) -> dict[str, float | None]:
    return {
        "value": _number(estimate.value),
        "low": _number(estimate.low),
        "high": _number(estimate.high),
    }


def _number(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None

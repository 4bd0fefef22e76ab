"""The same result for programs: plain dictionaries, numbers in SI, ready for JSON."""

import math
from typing import Any

from scaleopt.fitting.propagate import Estimate
from scaleopt.fitting.result import Fit
from scaleopt.planning.devices.choice import DeviceChoice
from scaleopt.show.origin import origin
from scaleopt.show.remarks import contradicted, remarks

RECORD_VERSION = 2


def record(
    fit: Fit[Any],
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
    where = fit.provenance
    return {
        "version": RECORD_VERSION,
        "level": level,
        "failure": fit.failure,
        "parameters": {
            name: {
                "value": None if where[name] == "not told" else _number(fit.estimate[place]),
                "low": _number(low[place]),
                "high": _number(high[place]),
                "unit": fit.parameters.units[place],
                "provenance": where[name],
                "identified": not (fit.failure or bool(fit.covariance.unseen[place])),
            }
            for place, name in enumerate(fit.names)
        },
        "assumed": {
            name: {"value": _number(getattr(fit.model, name)), "provenance": it}
            for name, it in where.items()
            if it == "assumed" and hasattr(fit.model, name)
        },
        "kinds": {
            kind.name: {
                "rows": kind.rows,
                "outliers": kind.outliers,
                "repeat_noise": _number(kind.repeat_noise),
                "misfit": _number(kind.misfit),
                "round_shift": _number(kind.round_shift),
                "run_shift": _number(kind.run_shift),
                "provenance": {"rows": "measured", "others": "fitted"},
            }
            for kind in fit.noise
        },
        "choice": None if choice is None else _choice(choice),
        "unidentified": list(fit.unidentified),
        "careful": contradicted(choice)
        + remarks(fit, choice, context)["What to be careful about:"],
        "notes": list(fit.notes),
        "origin": origin(fit, choice, context),
        "context": context,
    }


def _choice(choice: DeviceChoice) -> dict[str, Any]:
    workload = "measured" if choice.measured else "assumed"
    return {
        "provenance": {
            "flops": workload,
            "size_bytes": workload,
            "max_devices": "assumed",
            "measured_devices": "measured",
            "measured_s": "measured",
            "others": "fitted",
        },
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

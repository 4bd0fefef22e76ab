"""The answer to one workload: how many devices, how sure, what more would cost, what limits."""

from dataclasses import dataclass

import jax
import numpy as np
import pandas as pd

from scaleopt.fitting.on_host import at_each
from scaleopt.fitting.prediction import Prediction
from scaleopt.fitting.propagate import Estimate
from scaleopt.fitting.result import Fit
from scaleopt.models.step import StepTime
from scaleopt.planning.devices.best import best_devices
from scaleopt.planning.devices.optimum import check_workload, optimal_devices

_CLEARLY = 1.1
_SAME = 1e-6
_terms = jax.jit(StepTime.terms)


@dataclass(frozen=True)
class DeviceChoice:
    """How many devices to use for steps of one work and gradient size."""

    flops: float
    """W [FLOP] of a step, over all devices."""
    size: float
    """M [B] of the gradients."""
    optimal: Estimate
    """Real N*, without a limit on devices; may be infinite; nan where nothing tells it."""
    best: Estimate
    """The best whole N up to `max_devices`; nan where nothing tells it, as all that is at it."""
    max_devices: int
    time: Prediction
    """Seconds of a step at `best`."""
    single_time: Prediction
    """Seconds of a step on one device."""
    slowdown_at_double: float
    """T(2N*)/T(N*) − 1; NaN where N* is infinite or not told."""
    shares: dict[str, float]
    """Share of the step that each term takes at `best`."""
    measured_devices: int
    """The most devices in any row of the fit."""
    measured: dict[int, float]
    """Median seconds of a step of this very workload on each number of devices that was tried."""

    @property
    def open(self) -> bool:
        """Whether the rows fitted leave every number of devices possible."""
        return self.optimal.low == 1.0 and bool(np.isinf(self.optimal.high))

    @property
    def contradiction(self) -> int | None:
        """The number of devices that was measured faster than `best` was, by a tenth or more."""
        best = self.best.value
        if best not in self.measured:
            return None
        fastest = min(self.measured, key=lambda devices: self.measured[devices])
        slower = self.measured[int(best)] > _CLEARLY * self.measured[fastest]
        return fastest if slower else None

    @property
    def speedup(self) -> float:
        """How many times faster `best` is than one device."""
        return float(self.single_time.time) / float(self.time.time)

    @property
    def limit(self) -> str:
        """The term that takes the largest share of the step at `best`; "not told" without one."""
        if not self.shares:
            return "not told"
        return max(self.shares, key=lambda term: self.shares[term])


def choose_devices(
    fit: Fit[StepTime], flops: float, size: float, max_devices: int, level: float = 0.95
) -> DeviceChoice:
    """Decide on the number of devices for one workload.

    Args:
        fit: from `calibrate`.
        flops: W [FLOP], work of a step over all devices.
        size: M [B], bytes of the gradients.
        max_devices: the most there are.
        level: of every interval.

    Returns:
        The choice; its ranges are open where it hangs on what the fit's rows do not see.

    Raises:
        ValueError: a work that is not positive, or a negative size.
    """
    check_workload(flops, size)
    optimal = optimal_devices(fit, flops, size, level=level)
    best = best_devices(fit, flops, size, max_devices=max_devices, level=level)
    named, slowdown = dict[str, float](), np.nan
    if here := not np.isnan(best.value):
        terms = at_each(_terms, fit.model, best.value, flops, size)
        named = {name: float(seconds) for name, seconds in vars(terms).items()}
    if np.isfinite(optimal.value):
        about = np.array([1.0, 2.0]) * optimal.value
        at, doubled = at_each(_terms, fit.model, about, flops, size).total
        slowdown = doubled / at - 1
    total = sum(named.values())
    unknown = Prediction(*(np.asarray(number) for number in (np.nan, 0.0, np.inf)))

    def predicted(devices: float) -> Prediction:
        return fit.predict(level=level, devices=devices, flops=flops, size=size)

    return DeviceChoice(
        flops=flops,
        size=size,
        optimal=optimal,
        best=best,
        max_devices=max_devices,
        time=predicted(best.value) if here else unknown,
        single_time=predicted(1),
        slowdown_at_double=slowdown,
        shares={name: seconds / total for name, seconds in named.items()},
        measured_devices=int(fit.rows["devices"].max()),
        measured=_measured(fit.rows, flops, size),
    )


def _measured(rows: pd.DataFrame, flops: float, size: float) -> dict[int, float]:
    """Median seconds by device count of the steps of this work and size, less injected time."""
    steps = rows[rows["op"] == "step"]
    if steps.empty or "size_bytes" not in steps:
        return {}
    same = np.isclose(steps["flops"].to_numpy(float), flops, rtol=_SAME) & np.isclose(
        steps["size_bytes"].to_numpy(float), size, rtol=_SAME
    )
    steps = steps[same]
    seconds = steps["time_s"]
    if "injected_s" in steps:
        seconds = seconds - steps["injected_s"].fillna(0.0)
    medians = seconds.groupby(steps["devices"].to_numpy(int)).median()
    return dict(zip(medians.index.tolist(), medians.tolist(), strict=True))


def measured_workload(table: pd.DataFrame) -> tuple[float, float] | None:
    """Work and gradient bytes of the step measured on most device counts, of several the largest.

    Args:
        table: rows with op, devices, flops and size_bytes.

    Returns:
        W [FLOP] and M [B]; None where there is no step.

    >>> table = pd.DataFrame({"op": "step", "devices": [1, 2, 2], "flops": [1e9, 1e9, 4e9]})
    >>> measured_workload(table.assign(size_bytes=1e6))
    (1000000000.0, 1000000.0)
    """
    steps = table[table["op"] == "step"]
    if steps.empty or "flops" not in steps or "size_bytes" not in steps:
        return None
    several = steps.dropna(subset=["flops", "size_bytes"])
    if several.empty:
        return None
    seen: dict[tuple[float, float], set[float]] = {}
    for devices, flops, size in several[["devices", "flops", "size_bytes"]].to_numpy(float):
        seen.setdefault((flops, size), set()).add(devices)
    flops, size = max(seen, key=lambda workload: (len(seen[workload]), workload))
    return float(flops), float(size)

"""What a plan is to achieve and what it may not exceed, as functions of a step's seconds.

Everything here grows with the seconds of a step, for a given number of devices and batch. That is
why the search may keep the fastest of each and decide afterwards.
"""

from dataclasses import dataclass, replace

import numpy as np

OBJECTIVES = ("time", "cost", "cost_time", "devices", "energy")
"""What may be made small; with `devices` the shorter run is the better of two."""


@dataclass(frozen=True)
class Run:
    """How long a run is.

    Without a number of samples or steps it is a single step.
    """

    samples: float | None = None
    """Sequences that it takes at small batches."""
    steps: float | None = None
    """Steps, whatever the batch."""
    critical_batch: float = np.inf
    """At which a run takes twice the samples."""

    def length(self, batch: np.ndarray) -> np.ndarray:
        """Steps of the run at a batch."""
        if self.samples is None:
            return np.full(np.shape(batch), 1.0 if self.steps is None else self.steps)
        # `steps_to_target`, over the rows of every tile without a way through the device.
        return self.samples / batch * (1 + batch / self.critical_batch)


@dataclass(frozen=True)
class Limits:
    """What may not be exceeded; infinite, or 0 for a least share, where there is no limit."""

    budget: float = np.inf
    """[USD] of the run."""
    deadline: float = np.inf
    """[s] of the run."""
    min_mfu: float = 0.0
    """Least share of the peak rate that goes into the model's own FLOP."""
    min_efficiency: float = 0.0
    """Least share of the samples per device and second of the most efficient configuration."""

    @classmethod
    def of(cls, **limits: float | None) -> "Limits":
        """Those that are given; None where there is no limit."""
        return cls(**{name: limit for name, limit in limits.items() if limit is not None})


@dataclass(frozen=True)
class Goal:
    """An objective under limits, on devices of one kind."""

    objective: str
    run: Run
    limits: Limits
    price: float = 0.0
    """[USD/s] of a device."""
    power: float = 0.0
    """[W] of a device."""
    peak_rate: float = np.nan
    """[FLOP/s] that `min_mfu` is a share of."""
    flops: float = 0.0
    """Of one sequence, forward and backward, nothing counted twice."""
    device_seconds: float = np.nan
    """Of the run where it is most efficient; known once that has been found."""
    stretch: np.ndarray | None = None
    """By number of devices: how many times longer a run takes with its interruptions."""

    def length(self, devices: np.ndarray, batch: np.ndarray) -> np.ndarray:
        """How many times the seconds of a step the run takes."""
        steps = self.run.length(batch)
        return steps if self.stretch is None else steps * self.stretch[devices]

    def time(self, seconds: np.ndarray, devices: np.ndarray, batch: np.ndarray) -> np.ndarray:
        """Seconds of the run."""
        return seconds * self.length(devices, batch)

    def cost(self, seconds: np.ndarray, devices: np.ndarray, batch: np.ndarray) -> np.ndarray:
        """Dollars of the run."""
        return self.price * devices * self.time(seconds, devices, batch)

    def mfu(
        self, seconds: np.ndarray | float, devices: np.ndarray, batch: np.ndarray
    ) -> np.ndarray:
        """Share of the peak rate that goes into the model's own FLOP."""
        return self.flops * batch / (devices * self.peak_rate * seconds)

    def value(self, seconds: np.ndarray, devices: np.ndarray, batch: np.ndarray) -> np.ndarray:
        """What is to be small."""
        time = self.time(seconds, devices, batch)
        if self.objective == "time":
            return time
        if self.objective == "cost":
            return self.price * devices * time
        if self.objective == "cost_time":
            return self.price * devices * time * time
        if self.objective == "energy":
            return self.power * devices * time
        # Of equal numbers the shorter run: its log, squeezed so that it never outweighs a device.
        with np.errstate(divide="ignore"):
            return np.where(time < np.inf, devices + np.arctan(np.log(time)) / np.pi, np.inf)

    def slowest(self, devices: np.ndarray, batch: np.ndarray) -> np.ndarray:
        """Seconds of a step up to which every limit holds."""
        limits, steps = self.limits, self.length(devices, batch)
        bound = np.full(np.shape(devices), np.inf)
        if limits.deadline < np.inf:
            bound = np.minimum(bound, limits.deadline / steps)
        if limits.budget < np.inf:
            with np.errstate(divide="ignore"):
                bound = np.minimum(bound, limits.budget / (self.price * devices * steps))
        if limits.min_mfu > 0:
            share = self.flops * batch / (devices * self.peak_rate)
            bound = np.minimum(bound, share / limits.min_mfu)
        if limits.min_efficiency > 0 and self.device_seconds < np.inf:
            most = self.device_seconds / limits.min_efficiency
            bound = np.minimum(bound, most / (devices * steps))
        return bound

    def within(self, seconds: np.ndarray, devices: np.ndarray, batch: np.ndarray) -> np.ndarray:
        """What is to be small where every limit holds, infinite elsewhere."""
        # A step that takes exactly what it may passes, whichever way the bound was rounded.
        keeps = seconds <= self.slowest(devices, batch) * (1 + 1e-12)
        return np.where(keeps, self.value(seconds, devices, batch), np.inf)

    def without(self, limit: str) -> "Goal":
        """The same goal with one of its limits lifted."""
        lifted = replace(self.limits, **{limit: getattr(Limits(), limit)})
        return replace(self, limits=lifted)

"""What can be rented: devices of one kind, how many at a time, at what price."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from scaleopt.data.catalog import catalog
from scaleopt.fitting.on_host import at_each
from scaleopt.models.checkpoint import checkpoint_interval, interrupted_time
from scaleopt.models.machine import Machine
from scaleopt.models.step import StepTime
from scaleopt.models.workload_time import AnyMachine
from scaleopt.planning.asking.given import (
    check_scale,
    check_told,
    is_number,
    number,
    whole_number,
    whole_numbers,
)
from scaleopt.units import MB, PerSecond, Scalar, Seconds, hour, million

if TYPE_CHECKING:
    from scaleopt.fitting.result import Fit

_MOST = 2**20
_DEAREST = 1.0
"""[USD/s] that no device costs."""
_PRINTED = {"memory": "memory", "price": "price", "peak_rate": "bf16"}
"""What the catalogue gives of an offer, and what it calls that."""


@dataclass(frozen=True)
class Offer:
    """Devices of one kind.

    Args:
        machine: a `Machine`, or a fit of one; for what is no transformer also a `StepTime`.
        devices: the most there are; or every number of them that can be had, such as
            `range(64, 1025, 64)`.
        memory: [B] of a device.
        price: [USD/s] of a device; `2.5 / hour` for two and a half dollars an hour.
        power: [W] of a device.
        peak_rate: [FLOP/s] of a device, on which the MFU is based; the machine's own rate unless
            given.
        interruptions: [1/s] of a device: how often one fails or is taken away, such as
            `1 / (1000 * hour)`.
        checkpoint: [s] to write a checkpoint; written as often as is best.
        restart: [s] until the run goes on after an interruption.
        name: what it is called in tables.
        sources: the texts that numbers were read in, by name; `Offer.of` fills it.

    Raises:
        ValueError: a number that cannot be.
    """

    machine: "AnyMachine | Fit[Any]"
    devices: int | Iterable[int]
    memory: float
    price: float | None = None
    power: float | None = None
    peak_rate: float | None = None
    interruptions: float = 0.0
    checkpoint: float = 0.0
    restart: float = 0.0
    name: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, device: str, machine: "AnyMachine | Fit[Any]", **given: Any) -> "Offer":
        """Devices of the catalogue, with what it prints of them where nothing else is given.

        Args:
            device: as in `catalog_names`.
            machine: a `Machine`, or a fit of one; the catalogue stands in for no measurement.
            given: as an `Offer` takes it; memory, price and peak_rate (bf16, without sparsity) are
                the catalogue's unless given.

        Raises:
            ValueError: a device that is not catalogued, or no devices given.
            NotKnownError: memory that no text gave, and that was not given.

        >>> machine = Machine(rate=2e14, bandwidth=1.5e12, alpha=8e-6, beta=1 / 200e9)
        >>> offer = Offer.of("A100 SXM 80GB", machine, devices=64)
        >>> offer.memory, f"{offer.peak_rate:.4g}", offer.sources["memory"].split(":")[0]
        (80000000000.0, '3.12e+14', 'datasheet')
        """
        entry = catalog(device)
        if "devices" not in given:
            raise ValueError(f"say how many {entry.name} there are: devices=…")
        sources = {}
        for name, quantity in _PRINTED.items():
            if name in given:
                continue
            figure = entry[quantity] if name == "memory" else entry.get(quantity)
            if figure is not None:
                given[name] = figure.value
                sources[name] = f"{figure.provenance}: {figure.source}; {figure.date}"
        described: dict[str, Any] = {"name": entry.name, "sources": sources}
        return cls(machine, **(described | given))

    def __post_init__(self) -> None:
        """Refuse impossible numbers."""
        if 0 < number("memory", self.memory, "B") < MB:
            raise ValueError(
                f"memory is {self.memory:g} B; it is in bytes, so that 80 GB are 80 * GB of "
                "scaleopt.units"
            )
        for name, unit in {"memory": "B", "power": "W", "peak_rate": "FLOP/s"}.items():
            value = getattr(self, name)
            if value is not None and not number(name, value, unit) > 0:
                raise ValueError(f"{name} is {value} {unit}; it must be above 0")
            if value == np.inf and name != "memory":
                raise ValueError(f"{name} is {value} {unit}; it must be finite")
        rest = {"price": "USD/s", "interruptions": "1/s", "checkpoint": "s", "restart": "s"}
        for name, unit in rest.items():
            value = getattr(self, name)
            if value is not None and not 0 <= number(name, value, unit) < np.inf:
                raise ValueError(f"{name} is {value} {unit}; it must be 0 or more")
        if self.price is not None and self.price > _DEAREST:
            raise ValueError(
                f"price is {self.price:g} USD/s, {self.price * hour:,.0f} USD an hour of a device; "
                f"{self.price:g} USD an hour are {self.price:g} / hour of scaleopt.units"
            )
        if self.peak_rate is not None and self.peak_rate < million:
            raise ValueError(
                f"peak_rate is {self.peak_rate:g} FLOP/s; 300 TFLOP/s are 300 * TFLOP of "
                "scaleopt.units"
            )
        if self.interruptions > 0 and self.checkpoint == 0:
            raise ValueError(
                f"interruptions at {self.interruptions:g}/s cost what is lost since a checkpoint; "
                "give checkpoint=…, the seconds to write one"
            )
        if not isinstance(getattr(self.machine, "model", self.machine), (Machine, StepTime)):
            raise TypeError(
                f"a plan needs a Machine or a fit of one, not {type(self.machine).__name__}; "
                "calibrate on rows of kind train_step, or write so.Machine(rate=…, …)"
            )
        if self.fit is not None and self.fit.failure:
            raise ValueError(f"the fit failed, so nothing is planned on it: {self.fit.failure}")
        whole_number("node_size", getattr(self.model, "node_size", 1))
        several = int(self.counts()[-1]) > 1
        if self.fit is None:
            check_scale(self.machine)
        else:
            check_told(self.fit, ("rate", "alpha", "beta") if several else ("rate",))

    @property
    def fit(self) -> "Fit[Any] | None":
        """The fit that the machine comes from; None where it was given."""
        return None if isinstance(self.machine, (Machine, StepTime)) else self.machine

    @property
    def model(self) -> Any:
        """The machine itself."""
        return self.machine if self.fit is None else self.fit.model

    @property
    def node_size(self) -> int:
        """Devices of a node; a `StepTime` knows of none."""
        return int(getattr(self.model, "node_size", 1))

    @property
    def peak(self) -> float:
        """What the MFU is a share of [FLOP/s]."""
        return float(self.model.rate) if self.peak_rate is None else self.peak_rate

    def counts(self) -> np.ndarray:
        """Every number of devices that can be had, ascending.

        Up to a limit these are the parts of a node, and whole nodes.

        Raises:
            ValueError: none, or a number that is not a whole one above 0.
        """
        return self._counts

    @cached_property
    def _counts(self) -> np.ndarray:
        """The same, worked out once: an iterator can be gone through only once."""
        given, node = whole_numbers("devices", self.devices), self.node_size
        most = int(given[-1])
        if most > _MOST:
            raise ValueError(f"devices: {most:,} are more than the {_MOST:,} a plan is made for")
        if not is_number(self.devices):
            return given
        parts = [n for n in range(1, node) if node % n == 0 and n <= most]
        return np.array(parts + list(range(node, most + 1, node)))

    def stretch(self) -> np.ndarray | None:
        """By number of devices how many times longer a run takes with its interruptions."""
        if self.interruptions == 0:
            return None
        rate = self.interruptions * np.arange(int(self.counts()[-1]) + 1)
        return at_each(_stretch, self.checkpoint, self.restart, rate)

    def interval(self, devices: int) -> float:
        """Seconds between checkpoints that are best on so many devices."""
        return float(at_each(_interval, self.checkpoint, self.interruptions * devices))


_interval = jax.jit(checkpoint_interval)


@jax.jit
def _stretch(checkpoint: Seconds, restart: Seconds, rate: PerSecond) -> Scalar:
    interval = checkpoint_interval(checkpoint, rate)
    return interrupted_time(1.0, interval, checkpoint, restart, rate)

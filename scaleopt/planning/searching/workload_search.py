"""Every split of a workload that is no transformer, scored at once: there are few enough.

A workload says itself how it can be split, what a device then does, sends and holds. What is asked
of the scores afterwards (limits, alternatives, what binds, the Pareto front) is what is asked of a
transformer's.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import Array

from scaleopt.fitting.on_host import as_numbers, at_each
from scaleopt.models.step import StepTime
from scaleopt.models.workload import Workload
from scaleopt.models.workload_time import AnyMachine, step_terms, workload_time
from scaleopt.planning.asking.goal import Goal
from scaleopt.planning.asking.offer import Offer
from scaleopt.planning.searching.configuration import Configuration
from scaleopt.planning.searching.search import Best, Found, Leaders, Shortlist
from scaleopt.planning.searching.searched import Named, Scores, Searched
from scaleopt.planning.searching.upgrade import upgrades
from scaleopt.planning.searching.workload_configuration import WorkloadConfiguration
from scaleopt.units import Scalar, format_si

_LISTED = 1000
"""How many of the best are kept in the list."""
_ALIKE = 2.0
"""Up to so many times what was measured a fit is not said to be far from it."""
_NEAR = 6
"""How many numbers of devices are named where none of those asked for will do."""


@dataclass(frozen=True)
class Splits:
    """Every split of a workload on the devices of an offer, scored."""

    rows: np.ndarray
    """(numbers of a split, splits)"""
    cell: np.ndarray
    """Place of each among devices × batches."""
    seconds: np.ndarray
    held: np.ndarray
    samples: np.ndarray
    kind: Any
    """The named tuple that the numbers make."""

    def of(self, place: int) -> Any:
        """One of them, in plain numbers."""
        return self.kind(*self.rows[:, place].tolist())


@dataclass(frozen=True)
class SearchedWorkload(Searched):
    """What was found on one offer for a workload."""

    workload: Workload
    machine: AnyMachine
    batches: tuple[int | None, ...]
    """Samples of a step to choose from; None where the workload has its own."""
    counts: np.ndarray
    splits: Splits

    undivided = "its sides, or its samples,"

    @classmethod
    def of(
        cls,
        offer: Offer,
        goal: Goal,
        memory: float,
        workload: Workload,
        batches: Sequence[int] | None,
    ) -> "SearchedWorkload":
        """Score every split.

        Args:
            offer: the devices.
            goal: of the plan.
            memory: [B] of a device that may be filled.
            workload: what is planned.
            batches: samples of a step to choose from; None where the workload has its own.
        """
        numbers = as_numbers(workload), as_numbers(offer.model)
        tried = (None,) if batches is None else tuple(map(int, batches))
        counts = offer.counts()
        splits = _scored(*numbers, _listed(workload, counts, tried, offer.node_size))
        found = _found(goal, memory, splits, counts, len(tried))
        return cls(offer, goal, memory, found, *numbers, tried, counts, splits)

    def again(self, goal: Goal) -> "SearchedWorkload":
        """The same search for another goal."""
        found = _found(goal, self.memory, self.splits, self.counts, len(self.batches))
        kept = self.workload, self.machine, self.batches, self.counts, self.splits
        return SearchedWorkload(self.offer, goal, self.memory, found, *kept)

    @property
    def devices(self) -> np.ndarray:
        """Of each cell."""
        return np.repeat(self.counts, len(self.batches))

    @property
    def batch(self) -> np.ndarray:
        """Of each cell; 1 where it has no split."""
        samples = np.ones(len(self.devices), np.int64)
        samples[self.splits.cell] = self.splits.samples
        return samples

    def scores(self) -> Iterator[Scores]:
        """Every split once more."""
        splits = self.splits
        devices = self.devices[splits.cell]
        yield Scores(
            splits.rows, devices, splits.samples, splits.seconds[:, None], splits.held[:, None]
        )

    def configured(
        self, axes: np.ndarray, option: int, seconds: float, held: float
    ) -> Configuration:
        """A split in full; there are no options beside it."""
        split = self.splits.kind(*np.asarray(axes).tolist())
        batch = int(self.workload.samples(split))
        devices, samples, step = (np.array(n) for n in (int(split.devices), batch, float(seconds)))
        return WorkloadConfiguration(
            offer=self.offer,
            split=split,
            zero=0,
            step_time=float(seconds),
            steps=float(self.goal.run.length(samples)),
            time=float(self.goal.time(step, devices, samples)),
            memory=float(held),
            mfu=float(self.goal.mfu(step, devices, samples)),
            batch=batch,
            chosen=self.batches[0] is not None,
        )

    def breakdown(self, found: Configuration) -> tuple[Named, Named]:
        """Seconds of a step by what takes them, and bytes of a device by what they hold."""
        terms, held = at_each(_parts, self.machine, self.workload, found.split)
        return _plain(terms), _plain(held)

    def upgrades(self, found: Configuration) -> Named:
        """The share of its step that a machine saves of which one constant is a tenth better."""

        def seconds(machine: AnyMachine) -> np.ndarray:
            return at_each(_scores, machine, self.workload, found.split)[0]

        return upgrades(self.machine, seconds)

    def unlike(self, found: Configuration) -> list[str]:
        """Work of which the fit's rows have not seen as much, or messages as large."""
        if self.offer.fit is None:
            return []
        rows, work = self.offer.fit.rows, self.workload.work(found.split)
        seen = {
            name: float((rows[name] / (rows["devices"] if name == "flops" else 1)).max())
            for name in ("flops", "size_bytes")
            if name in rows
        }
        flops = sum(float(np.asarray(product.flops)) for product in work.products)
        messages = [one for each in work.messages.values() for one in each if float(one.times) > 0]
        size = max((float(np.asarray(one.size)) for one in messages), default=0.0)
        said = [
            f"{format_si(value, unit)} {where}: at most {format_si(most, unit)} in the rows fitted"
            for value, most, unit, where in (
                (flops, seen.get("flops", np.nan), "FLOP", "a device and step"),
                (size, seen.get("size_bytes", np.nan), "B", "in a message"),
            )
            if value > _ALIKE * most
        ]
        if isinstance(self.machine, StepTime) and float(np.asarray(work.moved)) > 0:
            said.append(
                "bytes through memory: steps tell no memory bandwidth; what those fitted moved is "
                "in their rate, and nothing is added for it"
            )
        return said

    def possible(self) -> np.ndarray:
        """The numbers of devices nearest to those asked for over which there is a split."""
        middle, most = int(np.median(self.counts)), 2 * int(self.counts[-1])
        near = sorted(range(1, most + 1), key=lambda count: abs(count - middle))
        splits, node = self.workload.splits, self.offer.node_size

        def divides(count: int) -> bool:
            return any(next(splits(count, samples, node), None) for samples in self.batches)

        return np.array(sorted(itertools.islice(filter(divides, near), _NEAR)))


_FIRST = ("serial", "launch", "compute", "imbalance", "straggling", "memory")


def _plain(parts: dict[str, Array]) -> Named:
    """As plain numbers; a program gives its parts in the order of the alphabet."""
    first = [name for name in _FIRST if name in parts]
    names = first + [name for name in parts if name not in (*_FIRST, "overhead")]
    names += ["overhead"] if "overhead" in parts else []
    return {name: float(parts[name]) for name in names}


def _listed(
    workload: Workload, counts: np.ndarray, batches: tuple[int | None, ...], node_size: int
) -> tuple[np.ndarray, np.ndarray, Any]:
    """The splits as columns, the cell of each, and what they are."""
    found, cells = [], []
    splits = workload.splits  # bound once: a module takes its time over it
    for place, count in enumerate(counts.tolist()):
        for which, batch in enumerate(batches):
            these = list(splits(count, batch, node_size))
            found += these
            cells += [place * len(batches) + which] * len(these)
    kind = type(found[0]) if found else None
    rows = np.array(found, np.int64).T if found else np.empty((0, 0), np.int64)
    return rows, np.array(cells, np.int64), kind


def _scored(
    workload: Workload, machine: AnyMachine, listed: tuple[np.ndarray, np.ndarray, Any]
) -> Splits:
    """Seconds, bytes and samples of every split."""
    rows, cell, kind = listed
    if not len(cell):
        none = np.empty(0)
        return Splits(rows, cell, none, none, none.astype(np.int64), kind)
    seconds, held, samples = at_each(_scores, machine, workload, kind(*rows))
    return Splits(rows, cell, seconds, held, samples.round().astype(np.int64), kind)


@jax.jit
def _scores(machine: AnyMachine, workload: Any, split: Any) -> tuple[Scalar, ...]:
    held = sum(workload.memory(split).values())
    return workload_time(machine, workload, split), held, workload.samples(split)


@jax.jit
def _parts(machine: AnyMachine, workload: Any, split: Any) -> tuple[dict[str, Array], Any]:
    return step_terms(machine, workload.work(split)), workload.memory(split)


def _found(goal: Goal, memory: float, splits: Splits, counts: np.ndarray, batches: int) -> Found:
    """The best by cell, and the best of all."""
    rows, cell, seconds, held = splits.rows, splits.cell, splits.seconds, splits.held
    devices, none = counts[cell // batches], np.zeros(len(cell), np.int64)
    fits = np.where(held <= memory, seconds, np.inf)
    lean = np.where(seconds <= goal.slowest(devices, splits.samples), held, np.inf)

    def leaders(value: np.ndarray, other: np.ndarray) -> Leaders:
        led = Leaders(len(counts) * batches, len(rows))
        led.update(cell, value, rows, none, other)
        return led

    shortlist = Shortlist(_LISTED, len(rows))
    with np.errstate(invalid="ignore"):
        value = np.where(fits < np.inf, goal.within(fits, devices, splits.samples), np.inf)
    shortlist.update(value, rows, Best(fits, none, held, seconds, lean, none, seconds))
    kept = leaders(fits, held), leaders(seconds, held), leaders(lean, seconds)
    return Found(*kept, shortlist, len(cell))

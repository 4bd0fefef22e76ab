"""Every layout of a training step: how many devices each axis takes, and how the batch is cut.

A layout is a product: N = d c t p devices for data, context, tensor and pipeline, and B = d b m
sequences for replicas, micro-batches and how often these are repeated. All that divide evenly are
listed, in an order that depends on nothing but the problem, block by block so that they never lie
in memory all at once.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from scaleopt.models.transformer import Transformer
from scaleopt.models.workload import divisors

SHARES = ("tensor", "context", "expert", "pipeline")
"""The axes that share one replica of the model, and its experts."""
AXES = (*SHARES, "interleave", "zero_bubble", "data", "micro_batch", "accumulation")
"""The first rows of a block of layouts; also the order in which ties are resolved."""
PLACES = ("devices", "batch", "cell", "share", "replicas", "sequences")
"""The rows below: what they add up to, and the places of share, d and b among those listed."""
SCHEDULES = ("1f1b", "interleaved", "zero_bubble")
"""How the stages of a pipeline may take turns."""
_TOKENS = 4096
"""Of a sequence that each device keeps unless asked otherwise: where sequences are not long, tensor
groups share them as well, and pass no keys and values."""


class Bounds(NamedTuple):
    """What is not tried, of what would divide."""

    micro_batch: int | None = None
    """The most sequences that pass together; None for no bound."""
    context: int | None = None
    """The most devices that share a sequence; None for as many as leave each 4096 tokens."""
    expert: int | None = None
    """The most devices that share the experts; None for as many as there are experts."""
    schedules: tuple[str, ...] = SCHEDULES[:2]
    """Of `SCHEDULES`; the last one few training frameworks know."""


class Cuts(NamedTuple):
    """Every way to cut the batches: d b m = B."""

    data: np.ndarray
    micro_batch: np.ndarray
    accumulation: np.ndarray
    batch: np.ndarray
    """Place of the batch among the batches."""
    replicas: np.ndarray
    """Every d that occurs, ascending."""
    which_replicas: np.ndarray
    """Place of d among them."""
    sequences: np.ndarray
    """Every b that occurs, ascending."""
    which_sequences: np.ndarray
    """Place of b among them."""


class Layouts:
    """The layouts of a model on some numbers of devices, with some global batches.

    A layout is listed where

    * t divides the query heads and the key-value heads, and c t the sequence; t, c t and e t each
      divide a node or fill several;
    * e divides the experts and the d c devices that share a layer's batch;
    * p divides the layers, and v the layers of a stage; v > 1 needs p > 1 and p | m, a zero-bubble
      schedule p > 1 and v = 1;
    * d b m is the batch, and d c t p one of the numbers of devices.

    Args:
        model: the transformer, of plain numbers.
        devices: the numbers of devices that can be had.
        batches: the global batches to consider.
        node_size: devices of a node.
        bounds: what is not tried.
    """

    def __init__(
        self,
        model: Transformer,
        devices: np.ndarray,
        batches: np.ndarray,
        node_size: int,
        bounds: Bounds | None = None,
    ) -> None:
        """See the class."""
        bounds = bounds or Bounds()
        self.devices, self.batches = np.unique(devices), np.unique(batches)
        self._largest = int(self.devices[-1])
        self._place = np.full(self._largest + 1, -1)
        self._place[self.devices] = np.arange(len(self.devices))
        self._layers, self.schedules = int(model.layers), bounds.schedules
        self._every = _shares(model, node_size, bounds)
        self.shares = [share for share in self._every if _devices(share) <= self._largest]
        """(t, c, e, p), in the order in which they are listed."""
        self._cuts = _cuts(self.batches, self._largest, bounds.micro_batch)
        self.replicas, self.sequences = self._cuts.replicas, self._cuts.sequences

    def __iter__(self) -> Iterator[np.ndarray]:
        """Blocks of layouts, (axes and places, layouts): one for each share and schedule."""
        cuts = self._cuts
        for place, share in enumerate(self.shares):
            tensor, context, expert, pipeline = share
            needed = cuts.data * _devices(share)
            here = np.flatnonzero(needed <= self._largest)
            here = here[self._place[needed[here]] >= 0]
            if expert > 1:
                here = here[cuts.data[here] * context % expert == 0]
            for chunks, zero_bubble in self._turns(pipeline):
                chosen = here[cuts.accumulation[here] % pipeline == 0] if chunks > 1 else here
                if not len(chosen):
                    continue
                batch, devices = cuts.batch[chosen], needed[chosen]
                rows = {
                    "tensor": tensor,
                    "context": context,
                    "expert": expert,
                    "pipeline": pipeline,
                    "interleave": chunks,
                    "zero_bubble": zero_bubble,
                    "data": cuts.data[chosen],
                    "micro_batch": cuts.micro_batch[chosen],
                    "accumulation": cuts.accumulation[chosen],
                    "devices": devices,
                    "batch": self.batches[batch],
                    "cell": self._place[devices] * len(self.batches) + batch,
                    "share": place,
                    "replicas": cuts.which_replicas[chosen],
                    "sequences": cuts.which_sequences[chosen],
                }
                block = np.empty((len(AXES) + len(PLACES), len(chosen)), np.int64)
                for row, name in zip(block, (*AXES, *PLACES), strict=True):
                    row[:] = rows[name]
                yield block

    def _turns(self, pipeline: int) -> list[tuple[int, int]]:
        """Chunks of a stage, and whether weights' gradients wait, of each schedule."""
        if pipeline == 1:
            return [(1, 0)]
        found = [(1, 0)] if "1f1b" in self.schedules else []
        if "interleaved" in self.schedules:
            found += [(chunks, 0) for chunks in divisors(self._layers // pipeline)[1:]]
        return found + ([(1, 1)] if "zero_bubble" in self.schedules else [])

    def places(self, rows: np.ndarray) -> np.ndarray:
        """Places of share, replicas and sequences of layouts, (3, layouts).

        Args:
            rows: (axes, layouts), of layouts that are listed.
        """
        at = dict(zip(AXES, rows, strict=True))
        which = {share: place for place, share in enumerate(self.shares)}
        share = [which[each] for each in zip(*(at[name].tolist() for name in SHARES), strict=True)]
        replicas = np.searchsorted(self.replicas, at["data"])
        sequences = np.searchsorted(self.sequences, at["micro_batch"])
        return np.stack([np.array(share, np.int64), replicas, sequences])

    def possible(self, most: int) -> np.ndarray:
        """Every number of devices up to a limit on which the model can be split at all."""
        data = np.unique(_cuts(self.batches, most, None).data)
        products = [data * _devices(share) for share in self._every if share[2] == 1]
        found = np.unique(np.concatenate(products))
        return found[found <= most]

    def count(self) -> int:
        """How many layouts there are."""
        return sum(block.shape[1] for block in self)


def devices_of(rows: np.ndarray) -> np.ndarray:
    """Devices of layouts, of which the rows are the `AXES`."""
    at = dict(zip(AXES, rows, strict=True))
    return at["data"] * at["context"] * at["tensor"] * at["pipeline"]


def batch_of(rows: np.ndarray) -> np.ndarray:
    """Sequences of a step of layouts, of which the rows are the `AXES`."""
    at = dict(zip(AXES, rows, strict=True))
    return at["data"] * at["micro_batch"] * at["accumulation"]


def tiles(blocks: Iterator[np.ndarray], size: int) -> Iterator[tuple[np.ndarray, int]]:
    """The blocks joined and cut anew into tiles of one size, the last filled up with its first row.

    Returns:
        Tiles of (axes and places, size), and how many of the layouts are no filling.

    >>> blocks = iter([np.zeros((6, 3), int), np.ones((6, 2), int)])
    >>> [(tile.shape, true) for tile, true in tiles(blocks, 4)]
    [((6, 4), 4), ((6, 4), 1)]
    """
    waiting: list[np.ndarray] = []
    have = 0
    for block in blocks:
        waiting.append(block)
        have += block.shape[1]
        if have >= size:
            joined = np.concatenate(waiting, axis=1) if len(waiting) > 1 else block
            whole = have - have % size
            for start in range(0, whole, size):
                yield joined[:, start : start + size], size
            waiting, have = [joined[:, whole:]], have - whole
    if have:
        joined = np.concatenate(waiting, axis=1)
        filling = np.repeat(joined[:, :1], size - have, axis=1)
        yield np.concatenate([joined, filling], axis=1), have


def _shares(model: Transformer, node_size: int, bounds: Bounds) -> list[tuple[int, int, int, int]]:
    """Every (t, c, e, p) that divides the model, however many devices it takes."""
    heads, tokens = math.gcd(int(model.heads), int(model.kv_heads)), int(model.seq_len)
    context = tokens // _TOKENS if bounds.context is None else bounds.context
    expert = int(model.experts) if bounds.expert is None else bounds.expert

    def lies_well(group: int) -> bool:
        return node_size % group == 0 or group % node_size == 0

    return [
        (t, c, e, p)
        for t in divisors(math.gcd(heads, tokens))
        if lies_well(t)
        for c in divisors(tokens // t)
        if c <= max(context, 1) and lies_well(c * t)
        for e in divisors(int(model.experts))
        if e <= max(expert, 1) and lies_well(e * t)
        for p in divisors(int(model.layers))
    ]


def _devices(share: tuple[int, int, int, int]) -> int:
    """Devices of one replica."""
    tensor, context, _, pipeline = share
    return tensor * context * pipeline


def _cuts(batches: np.ndarray, largest: int, max_micro_batch: int | None) -> Cuts:
    """Every (d, b, m) with d b m one of the batches."""
    most = np.inf if max_micro_batch is None else max_micro_batch
    found = []
    for place, batch in enumerate(batches.tolist()):
        parts = np.array(divisors(batch))
        each = batch // parts[parts <= largest]
        micro = parts[parts <= most]
        data, b = np.nonzero(each[:, None] % micro == 0)
        found.append([parts[data], micro[b], each[data] // micro[b], np.full(len(b), place)])
    data, micro_batch, accumulation, batch = np.concatenate(found, axis=1)
    replicas, sequences = (np.unique(each, return_inverse=True) for each in (data, micro_batch))
    return Cuts(data, micro_batch, accumulation, batch, *replicas, *sequences)

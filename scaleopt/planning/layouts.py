"""Every layout of a training step: how many devices each axis takes, and how the batch is cut.

A layout is a product: N = d t p devices for data, tensor and pipeline, and B = d b m sequences for
replicas, micro-batches and how often these are repeated. All that divide evenly are listed, in an
order that depends on nothing but the problem, block by block so that they never lie in memory all
at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scaleopt.models.transformer import Transformer

AXES = ("tensor", "pipeline", "interleave", "data", "micro_batch", "accumulation")
"""The first rows of a block of layouts; also the order in which ties are resolved."""
PLACES = ("devices", "batch", "cell", "pair", "replicas", "sequences")
"""The rows below: what they add up to, and the places of (t, p), d and b among those listed."""


@dataclass(frozen=True)
class Cuts:
    """Every way to cut the batches: d b m = B."""

    data: np.ndarray
    micro_batch: np.ndarray
    accumulation: np.ndarray
    batch: np.ndarray
    """Place of the batch among the batches."""
    replicas: np.ndarray
    """Place of d among those that occur."""
    sequences: np.ndarray
    """Place of b among those that occur."""


class Layouts:
    """The layouts of a model on some numbers of devices, with some global batches.

    A layout is listed where

    * t divides the query heads, the key-value heads and the sequence, and either divides a node or
      fills several;
    * p divides the layers, and v the layers of a stage; v > 1 needs p > 1 and p | m;
    * d b m is the batch, and d t p one of the numbers of devices.

    Args:
        model: the transformer, of plain numbers.
        devices: the numbers of devices that can be had.
        batches: the global batches to consider.
        node_size: devices of a node.
        max_micro_batch: the most sequences that pass together; None for no limit.
    """

    def __init__(
        self,
        model: Transformer,
        devices: np.ndarray,
        batches: np.ndarray,
        node_size: int,
        max_micro_batch: int | None = None,
    ) -> None:
        """See the class."""
        self.devices, self.batches = np.unique(devices), np.unique(batches)
        self._largest = int(self.devices[-1])
        self._place = np.full(self._largest + 1, -1)
        self._place[self.devices] = np.arange(len(self.devices))
        shared = np.gcd.reduce([int(model.heads), int(model.kv_heads), int(model.seq_len)])
        self.tensors = [t for t in divisors(shared) if node_size % t == 0 or t % node_size == 0]
        self._layers = int(model.layers)
        self.pairs = [
            (tensor, pipeline)
            for tensor in self.tensors
            for pipeline in divisors(self._layers)
            if tensor * pipeline <= self._largest
        ]
        """(t, p), in the order in which they are listed."""
        data, micro_batch, accumulation, batch = _cuts(self.batches, self._largest, max_micro_batch)
        self.replicas, replicas = np.unique(data, return_inverse=True)
        self.sequences, sequences = np.unique(micro_batch, return_inverse=True)
        self._cuts = Cuts(data, micro_batch, accumulation, batch, replicas, sequences)

    def __iter__(self) -> Iterator[np.ndarray]:
        """Blocks of layouts, (axes and places, layouts), one for each (t, p, v) that has any."""
        cuts = self._cuts
        for pair, (tensor, pipeline) in enumerate(self.pairs):
            needed = cuts.data * (tensor * pipeline)
            here = np.flatnonzero(needed <= self._largest)
            here = here[self._place[needed[here]] >= 0]
            for chunks in divisors(self._layers // pipeline) if pipeline > 1 else [1]:
                chosen = here[cuts.accumulation[here] % pipeline == 0] if chunks > 1 else here
                if not len(chosen):
                    continue
                batch, devices = cuts.batch[chosen], needed[chosen]
                cell = self._place[devices] * len(self.batches) + batch
                block = np.empty((len(AXES) + len(PLACES), len(chosen)), np.int64)
                block[0], block[1], block[2] = tensor, pipeline, chunks
                block[3], block[4] = cuts.data[chosen], cuts.micro_batch[chosen]
                block[5], block[6] = cuts.accumulation[chosen], devices
                block[7], block[8], block[9] = self.batches[batch], cell, pair
                block[10], block[11] = cuts.replicas[chosen], cuts.sequences[chosen]
                yield block

    def possible(self, most: int) -> np.ndarray:
        """Every number of devices up to a limit on which the model can be split at all."""
        data = np.unique(_cuts(self.batches, most, None)[0])
        products = [
            data * (tensor * pipeline)
            for tensor in self.tensors
            for pipeline in divisors(self._layers)
        ]
        found = np.unique(np.concatenate(products))
        return found[found <= most]

    def count(self) -> int:
        """How many layouts there are."""
        return sum(block.shape[1] for block in self)


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


def divisors(number: int) -> list[int]:
    """All divisors, ascending.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    tried = np.arange(1, number + 1)
    return tried[number % tried == 0].tolist()


def _cuts(batches: np.ndarray, largest: int, max_micro_batch: int | None) -> np.ndarray:
    """Every (d, b, m) with d b m one of the batches, and the place of that batch."""
    most = np.inf if max_micro_batch is None else max_micro_batch
    found = []
    for place, batch in enumerate(batches.tolist()):
        parts = np.array(divisors(batch))
        each = batch // parts[parts <= largest]
        micro = parts[parts <= most]
        data, b = np.nonzero(each[:, None] % micro == 0)
        found.append([parts[data], micro[b], each[data] // micro[b], np.full(len(b), place)])
    return np.concatenate(found, axis=1)

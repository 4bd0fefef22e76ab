"""Every layout of a training step: how many devices each axis takes, and how the batch is cut.

A layout is a product: N = d t p devices for data, tensor and pipeline, and B = d b m sequences for
replicas, micro-batches and how often these are repeated. All that divide evenly are listed, in an
order that depends on nothing but the problem, a block for each (t, p, v) so that they never lie in
memory all at once.
"""

from collections.abc import Iterator

import numpy as np

from scaleopt.models.transformer import Transformer

AXES = ("tensor", "pipeline", "interleave", "data", "micro_batch", "accumulation")
"""The rows of a block of layouts, in this order; also the order in which ties are resolved."""


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
        largest = int(self.devices[-1])
        self._allowed = np.zeros(largest + 1, bool)
        self._allowed[self.devices] = True
        shared = np.gcd.reduce([int(model.heads), int(model.kv_heads), int(model.seq_len)])
        self.tensors = [t for t in _divisors(shared) if node_size % t == 0 or t % node_size == 0]
        self._layers = int(model.layers)
        self.cuts = _cuts(self.batches, largest, max_micro_batch)

    def __iter__(self) -> Iterator[np.ndarray]:
        """Blocks of layouts, (axes, layouts)."""
        data, micro_batch, batches = self.cuts
        largest = len(self._allowed) - 1
        for tensor in self.tensors:
            for pipeline in _divisors(self._layers):
                if tensor * pipeline > largest:
                    break
                needed = data * tensor * pipeline
                here = (needed <= largest) & self._allowed[np.minimum(needed, largest)]
                if not here.any():
                    continue
                for chunks in _divisors(self._layers // pipeline) if pipeline > 1 else [1]:
                    chosen = here & (batches % pipeline == 0) if chunks > 1 else here
                    count = int(chosen.sum())
                    if count:
                        fixed = np.array([[tensor], [pipeline], [chunks]])
                        yield np.concatenate(
                            [
                                np.broadcast_to(fixed, (3, count)),
                                data[None, chosen],
                                micro_batch[None, chosen],
                                batches[None, chosen],
                            ]
                        )

    def possible(self, most: int) -> np.ndarray:
        """Every number of devices up to a limit on which the model can be split at all."""
        data = _cuts(self.batches, most, None)[0]
        products = [
            np.unique(data) * tensor * pipeline
            for tensor in self.tensors
            for pipeline in _divisors(self._layers)
        ]
        found = np.unique(np.concatenate(products))
        return found[found <= most]

    def count(self) -> int:
        """How many layouts there are."""
        return sum(block.shape[1] for block in self)


def tiles(blocks: Iterator[np.ndarray], size: int) -> Iterator[tuple[np.ndarray, int]]:
    """The blocks joined and cut anew into tiles of one size, the last filled up with its first row.

    Returns:
        Tiles of (axes, size), and how many of the layouts are no filling.

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
            joined = np.concatenate(waiting, axis=1)
            whole = have - have % size
            for start in range(0, whole, size):
                yield joined[:, start : start + size], size
            waiting, have = [joined[:, whole:]], have - whole
    if have:
        joined = np.concatenate(waiting, axis=1)
        filling = np.repeat(joined[:, :1], size - have, axis=1)
        yield np.concatenate([joined, filling], axis=1), have


def _divisors(number: int) -> list[int]:
    """All divisors, ascending.

    >>> _divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    tried = np.arange(1, number + 1)
    return tried[number % tried == 0].tolist()


def _cuts(
    batches: np.ndarray, largest: int, max_micro_batch: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every (d, b, m) with d b m one of the batches."""
    most = np.inf if max_micro_batch is None else max_micro_batch
    found = []
    for batch in batches.tolist():
        divisors = np.array(_divisors(batch))
        each = batch // divisors[divisors <= largest]
        micro = divisors[divisors <= most]
        data, place = np.nonzero(each[:, None] % micro == 0)
        found.append([divisors[data], micro[place], each[data] // micro[place]])
    data, micro_batch, accumulation = np.concatenate(found, axis=1)
    return data, micro_batch, accumulation

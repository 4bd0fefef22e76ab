"""The processes that measure together, as one of them sees the others.

All of them run the same programs in the same order, as JAX's multi-controller runtime wants it.
Whatever steers that order (sizes found by trying, when the time is up) is decided by the first and
told to all. Before each sample they meet in a small collective, and a sample lasts as long as it
does on the slowest of them: a collective that one enters early waits for the last in its time.
"""

import socket
import zlib

import jax
import numpy as np

from probes.context import Device, physical_cores
from probes.shards import local
from probes.timing import Program, Use, seconds_of

_AXIS = "everyone"


class Peers:
    """The processes that measure together; one alone has nobody to wait for."""

    def __init__(self, devices: list[Device]) -> None:
        self.index, self.count = jax.process_index(), jax.process_count()
        self._mesh = jax.make_mesh((len(devices),), (_AXIS,), devices=devices)
        self._spread = jax.NamedSharding(self._mesh, jax.P(_AXIS))
        together = jax.NamedSharding(self._mesh, jax.P())
        self._gather = jax.jit(lambda x: x, out_shardings=together)
        # A process has several devices; its word is that of the first.
        owners = [device.process_index for device in devices]
        self._speakers = [owners.index(process) for process in range(self.count)]
        self.own_devices = [d for d in devices if d.process_index == self.index]
        cores = physical_cores()
        marks = self.gather(_mark(socket.gethostname()), _mark(str(sorted(cores))))
        self._hosts = marks[:, 0]
        sharing = [place for place, mark in enumerate(marks) if (mark == marks[self.index]).all()]
        self.nodes = len(set(self._hosts))
        self.cores = _share(cores, sharing.index(self.index), len(sharing), len(self.own_devices))
        wanted = len(sharing) * len(self.own_devices)
        on_cpu = devices[0].platform == "cpu"
        self.crowded = on_cpu and bool(self.gather(float(wanted > len(cores))).max())

    def context(self) -> dict[str, int | bool]:
        """What the table's first line says of them."""
        return {"processes": self.count, "nodes": self.nodes, "oversubscribed": self.crowded}

    def gather(self, *values: float) -> np.ndarray:
        """The same numbers of every process, a row each."""
        if self.count == 1:
            return np.array([values], float)
        # As pairs of 32 bits, since JAX would round them to single precision.
        words = np.array(values, np.float64).view(np.uint32)
        mine = np.broadcast_to(words, (len(self.own_devices), len(words)))
        everyone = self._gather(jax.make_array_from_process_local_data(self._spread, mine))
        return local(everyone).view(np.float64)[self._speakers]

    def agree(self, value: float) -> float:
        """What the first process says."""
        return float(self.gather(value)[0, 0])

    def seconds_of(self, program: Program) -> float:
        """Seconds of one call that all begin together, on the slowest."""
        if self.count == 1:
            return seconds_of(program)
        self.gather(0.0)
        return float(self.gather(seconds_of(program)).max())

    def foreign_load(self, use: Use) -> float:
        """Cores kept busy by whoever is not one of these processes, on the host with most."""
        uses = self.gather(use.machine, use.own)
        hosts = [uses[self._hosts == host] for host in set(self._hosts)]
        return max(Use(host[:, 0].max(), host[:, 1].sum()).foreign for host in hosts)


def _mark(text: str) -> float:
    """A number for a text, for comparing."""
    return float(zlib.crc32(text.encode()))


def _share(cores: list[int], place: int, parts: int, least: int) -> list[int]:
    """The cores of one of several processes that share them, one for each of its devices.

    >>> _share([0, 1, 2, 3], 1, 2, 1), _share([0, 1], 2, 4, 1)
    ([1, 3], [0])
    """
    return cores[place::parts] if parts * least <= len(cores) else [cores[place % len(cores)]]

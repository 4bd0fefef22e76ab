"""The one clock: whatever is timed is timed here, and each sample waits for all of its results.

JAX returns before the work is done, so a sample ends only when every output is ready. Compilation
and the first calls stay outside; what comes out is raw seconds, one number a sample.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import jax
import psutil

Program = Callable[[], Any]
"""Does the work once and returns its outputs, ready or not."""

_LOAD_WINDOW = 0.25


def seconds_of(program: Program) -> float:
    """Seconds of one call, until all its outputs are ready."""
    start = time.perf_counter()
    jax.block_until_ready(program())
    return time.perf_counter() - start


def warm_up(program: Program, calls: int = 1) -> None:
    """Call without timing, so that memory, caches and threads are as in the samples that follow."""
    for _ in range(calls):
        jax.block_until_ready(program())


def spin(seconds: float) -> None:
    """Keep the host busy for a known time."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def now() -> float:
    """Seconds since some fixed moment, for budgets."""
    return time.perf_counter()


def timestamp() -> str:
    """The time in UTC, to the second, as ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Use(NamedTuple):
    """Cores at work, over the last quarter of a second or more."""

    machine: float
    """Those of the whole machine."""
    own: float
    """Those that this process kept busy."""

    @property
    def foreign(self) -> float:
        """Those that others kept busy."""
        return round(max(self.machine - self.own, 0.0), 3)


class LoadMeter:
    """How many cores this process and others kept busy.

    The operating system counts processor time in hundredths of a second, so a window below a
    quarter of a second tells nothing; until the first has passed the load reads 0.
    """

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._mark = self._read()
        self._use = Use(0.0, 0.0)

    def use(self) -> Use:
        """Cores used by all and by this process."""
        moment, busy, own = self._read()
        elapsed = moment - self._mark[0]
        if elapsed >= _LOAD_WINDOW:
            self._use = Use((busy - self._mark[1]) / elapsed, (own - self._mark[2]) / elapsed)
            self._mark = (moment, busy, own)
        return self._use

    def cores(self) -> float:
        """Cores used by others."""
        return self.use().foreign

    def _read(self) -> tuple[float, float, float]:
        machine, own = psutil.cpu_times(), self._process.cpu_times()
        idle = machine.idle + getattr(machine, "iowait", 0.0)
        return time.perf_counter(), sum(machine[:8]) - idle, own.user + own.system

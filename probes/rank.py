"""A process that measures, alone or with others, as `probes.launch` starts it: `probes.rank ORDER`.

The order is JSON. What happens goes back as lines of JSON through a pipe: where the rank is, so
that one which hangs can be told from those that wait for it, and from the first rank the context
and every row, since one process writes the table. A rank ends when its starter does.
"""

import json
import os
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

BEAT = 0.5
"""Seconds between signs of life."""


@dataclass(frozen=True)
class Order:
    """What a rank is told to do."""

    effort: dict[str, Any]
    """The fields of an `Effort`."""
    meeting: dict[str, Any] | None
    """Arguments of `jax.distributed.initialize`; None for a process alone."""
    devices: int | None = None
    """How many a process alone uses; without it those there are."""
    only: tuple[str, ...] = ()
    """The operations to measure; without any, all."""
    seed: int = 0
    compiled: str | None = None
    """A folder for what is compiled, so that the next run need not compile it again."""
    linger: float = 0.0
    """Seconds to wait, when others seem to be gone, for JAX to say which."""

    def command(self, pipe: int) -> list[str]:
        """What starts the rank, reporting to this end of a pipe."""
        return [sys.executable, "-m", "probes.rank", json.dumps(asdict(self)), str(pipe)]


class Reporter:
    """Sends lines of JSON; takes the rows of the first rank, and drops those of the others."""

    def __init__(self, pipe: int) -> None:
        self._pipe = os.fdopen(pipe, "w", buffering=1, encoding="utf-8")
        self._turn = threading.Lock()
        self.writes = False
        threading.Thread(target=self._beat, daemon=True).start()

    def say(self, **message: Any) -> None:
        """Send a message."""
        with self._turn:
            self._pipe.write(json.dumps(message) + "\n")

    def progress(self, done: float, what: str) -> None:
        """Say where this rank is."""
        self.say(done=done, doing=what)

    def append(self, row: Mapping[str, Any]) -> None:
        """Send a row."""
        if self.writes:
            self.say(row=dict(row))

    def _beat(self) -> None:
        """Give a sign of life now and then, whatever the others are waited for."""
        never = threading.Event()
        while not never.wait(BEAT):
            self.say(beat=True)


def main() -> None:
    """Carry out the order on the command line; an error is reported, and ends the process."""
    order, report = Order(**json.loads(sys.argv[1])), Reporter(int(sys.argv[2]))
    threading.Thread(target=_end_with_starter, daemon=True).start()
    report.progress(0.0, "starting JAX")
    try:
        _measure(order, report)
    except Exception as error:  # whatever it is, the starter must hear of it
        from probes.cell import ProbeError
        from probes.context import DeviceError

        own = isinstance(error, ProbeError | DeviceError | OSError | MemoryError)
        if not own and order.linger:
            report.progress(1.0, f"another process may be gone: {str(error)[:200]}")
            threading.Event().wait(order.linger)  # until JAX knows which, says so, and aborts
        named = "" if isinstance(error, ProbeError | DeviceError) else f"{type(error).__name__}: "
        report.say(failed=f"{named}{str(error)[:400]}", own=own)
        sys.stderr.flush()
        # An orderly end would wait for the others, who may wait for this one.
        os._exit(1)
    os._exit(0)  # what JAX does at the end of a process, after a shutdown, aborts it


def _measure(order: Order, report: Reporter) -> None:
    import jax

    from probes.context import describe, join_devices, start_devices
    from probes.peers import Peers
    from probes.plan import Effort, scout_side
    from probes.sweep import sweep

    if order.compiled is not None:
        jax.config.update("jax_compilation_cache_dir", order.compiled)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    if order.meeting is None:
        devices = start_devices(order.devices)
    else:
        allowed = order.meeting["initialization_timeout"]
        report.say(done=0.0, doing="waiting for the other processes", allowed=allowed)
        devices = join_devices(order.meeting)
        report.progress(0.0, "meeting the other processes")
    peers = Peers(devices)
    report.writes = peers.index == 0
    report.progress(0.0, "looking for the right sizes")
    effort = Effort(**order.effort)
    effort = replace(effort, side=effort.side or scout_side(peers))
    if report.writes:
        report.say(context=describe(devices) | peers.context() | {"matrix_side": effort.side})
    left_out = sweep(
        devices,
        report,
        effort,
        report.progress,
        peers=peers,
        seed=order.seed,
        only=order.only,
    )
    report.say(left_out=left_out, done=1.0, doing="measured")
    if order.meeting is not None:
        jax.distributed.shutdown()


def _end_with_starter() -> None:
    """Wait until standard input ends, which the starter holds, and end as well."""
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    main()

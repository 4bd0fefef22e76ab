"""What a ring of plain sockets takes on an emulated network, without JAX and without a fit.

A byte that comes after milliseconds of silence comes late, by as much as the kernel takes to wake
its receiver: tens of microseconds on a virtual machine. That is the transport's, and no probe can
tell it from the wire's delay; so what a probe finds is held against this too.
"""

import contextlib
import subprocess
from pathlib import Path

import numpy as np

from network.found import Interval
from network.wire import Wire, compiled, network

_NORMAL = 1.645
"""Standard deviations on either side of a 90 % interval."""
_SECONDS, _REPEATS = 4.0, (40, 400)


def ring(count: int, wire: Wire, folder: Path) -> Interval:
    """Delay one way, as sockets see it, with its 90 % interval.

    Args:
        count: of nodes.
        wire: of every port.
        folder: for the compiled program.
    """
    program = compiled("ring", folder)
    # As long a chain as a collective's of `found.GLOO`, so that chance in a step averages alike.
    steps = 4 * (count - 1)
    fewest, most = _REPEATS
    repeats = int(np.clip(_SECONDS / (steps * max(wire.delay, 1e-4)), fewest, most))
    processes: list[subprocess.Popen[str]] = []
    with network(count, wire) as net, contextlib.ExitStack() as stack:
        for index in range(count):
            command = [program, net.address((index + 1) % count), str(steps), str(repeats)]
            processes.append(
                subprocess.Popen(net.inside(index, command), stdout=subprocess.PIPE, text=True)
            )
            stack.callback(processes[-1].kill)
        said = [process.communicate(timeout=120)[0] for process in processes]
    if any(process.returncode for process in processes):
        raise RuntimeError(f"a ring of sockets ended with {[p.returncode for p in processes]}")
    # All are under way until the last is through.
    seconds = np.sort(np.max([[float(x) for x in each.split()] for each in said], axis=0)) / steps
    middle, reach = repeats / 2, _NORMAL * np.sqrt(repeats) / 2
    low, high = (int(np.clip(middle + k * reach, 0, repeats - 1)) for k in (-1, 1))
    return Interval(float(np.median(seconds)), float(seconds[low]), float(seconds[high]))

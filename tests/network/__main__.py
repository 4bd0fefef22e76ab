"""`python -m network`: measure collectives over an emulated network, and print what they show.

A line of JSON for each collective: delay [s] and rate [B/s], and the delay as a ring of plain
sockets sees it, each with its 90 % interval. What ranks and sockets add themselves is measured too,
and taken away.
"""

import argparse
import dataclasses
import json
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

from network.found import GLOO, Interval, fitted, found, own_delay, own_per_byte, worst_miss
from network.measure import effort_for, measured
from network.ring import ring
from network.wire import Wire, missing, sharing


def main() -> None:
    """Measure as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--delay", type=float, default=2e-3, help="one way [s]")
    parser.add_argument("--rate", type=float, default=25e6, help="of each port [B/s]")
    parser.add_argument("--seconds", type=float, default=4.0, help="of measuring")
    parser.add_argument("--runs", type=int, default=1, help="starts of the ranks")
    parser.add_argument("op", nargs="+", choices=GLOO)
    given = parser.parse_args()
    reason = missing()
    if reason:
        parser.exit(3, f"{reason}\n")
    wire, instant = Wire(given.delay, given.rate), Wire(0.0, given.rate)
    effort = replace(effort_for(given.ranks, wire, given.seconds), runs=given.runs)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        probed = partial(measured, given.ranks, ops=given.op, effort=effort)
        here = probed(wire, path=folder / "here.csv")
        at_once = probed(instant, path=folder / "instant.csv")
        alone = probed(instant, path=folder / "alone.csv", together=True)
        late, soon = (ring(given.ranks, each, folder) for each in (wire, instant))
    by_sockets = late - soon
    waking = by_sockets - Interval(wire.delay, wire.delay, wire.delay)
    for op in given.op:
        fit = fitted(here, op, given.ranks, pipelined=op == "all_reduce" and given.ranks > 2)
        delay, per_byte = found(fit, op, given.ranks)
        added, _ = found(fitted(at_once, op, given.ranks), op, given.ranks)
        _, copying = found(fitted(alone, op, given.ranks), op, given.ranks)
        intervals = {
            "delay": delay - own_delay(added, waking, sharing(given.ranks)),
            "rate": (per_byte - own_per_byte(copying)).inverse(),
            "by_sockets": by_sockets,
        }
        put_in = {"delay": wire.delay, "rate": wire.payload_rate}
        said = {name: dataclasses.astuple(each) for name, each in intervals.items()}
        print(json.dumps({"op": op, "put_in": put_in, "miss": worst_miss(fit)} | said))


if __name__ == "__main__":
    main()

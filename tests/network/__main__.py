"""`python -m network`: measure collectives over an emulated network, and print what they show.

A line of JSON for each collective: delay [s] and rate [B/s], the delay as a ring of plain sockets
sees it, and by how much the two differ; each with its 90 % interval. What ranks and sockets add
themselves is measured on the same network without a delay, and taken away.
"""

import argparse
import dataclasses
import json
import tempfile
from dataclasses import replace
from pathlib import Path

from network.found import GLOO, fitted, found, worst_miss
from network.measure import effort_for, measured
from network.ring import ring
from network.wire import Wire, missing


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
        here, added = (
            measured(given.ranks, each, given.op, effort, folder / f"{name}.csv")
            for name, each in {"here": wire, "instant": instant}.items()
        )
        late, at_once = (ring(given.ranks, each, folder) for each in (wire, instant))
    by_sockets = late - at_once
    for op in given.op:
        fit = fitted(here, op, given.ranks, pipelined=op == "all_reduce" and given.ranks > 2)
        delay, rate = found(fit, op, given.ranks)
        of_ranks, _ = found(fitted(added, op, given.ranks), op, given.ranks)
        intervals = {
            "delay": delay - of_ranks,
            "rate": rate,
            "by_sockets": by_sockets,
            "apart": delay - of_ranks - by_sockets,
        }
        shown = {name: dataclasses.astuple(each) for name, each in intervals.items()}
        put_in = {"delay": wire.delay, "rate": wire.payload_rate}
        print(json.dumps({"op": op, "put_in": put_in, "miss": worst_miss(fit)} | shown))


if __name__ == "__main__":
    main()

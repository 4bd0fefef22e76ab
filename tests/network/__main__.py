"""`python -m network`: measure collectives over an emulated network, and print what they show.

A line of JSON for each collective: delay [s] and rate [B/s], each with its 90 % interval.
"""

import argparse
import dataclasses
import json
import tempfile
from dataclasses import replace
from pathlib import Path

from network.found import GLOO, fitted, found, worst_miss
from network.measure import effort_for, measured
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
    wire = Wire(given.delay, given.rate)
    with tempfile.TemporaryDirectory() as folder:
        effort = replace(effort_for(given.ranks, wire, given.seconds), runs=given.runs)
        table = measured(given.ranks, wire, given.op, effort, Path(folder) / "table.csv")
    for op in given.op:
        pipelined = op == "all_reduce" and given.ranks > 2 and given.delay > 0
        fit = fitted(table, op, given.ranks, pipelined=pipelined)
        delay, rate = found(fit, op, given.ranks)
        shown = {"op": op, "delay": dataclasses.astuple(delay), "rate": dataclasses.astuple(rate)}
        known = {"payload_rate": wire.payload_rate, "miss": worst_miss(fit)}
        print(json.dumps(shown | known))


if __name__ == "__main__":
    main()

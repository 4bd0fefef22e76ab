"""Damage logs at random, and count what a reader makes of it.

    python tests/mutated_logs.py 100000 ["nccl-tests" ...]

prints, for each format, crashes, files refused, lines reported, rows changed with nothing said,
and rows lost with nothing said. A changed row goes unseen only where the format prints nothing
that the damaged digit could contradict; `REDUNDANT` names the formats where that cannot be.
"""

import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

from readers_samples import SAMPLES

from scaleopt.data.measurements import MeasurementError
from scaleopt.data.readers.read import read_rows


def damaged(text, rng):
    """A text with one to three characters changed, left out, added or exchanged, or a piece cut."""
    letters = list(text)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if not letters:
            break
        at = rng.randrange(len(letters))
        kind = rng.randrange(6)
        if kind == 0:
            letters[at] = chr(rng.randrange(32, 127))
        elif kind == 1:
            letters[at] = ""
        elif kind == 2:
            letters[at] += chr(rng.randrange(32, 127))
        elif kind == 3:
            letters[at] = str(rng.randrange(10))
        elif kind == 4:
            del letters[at : at + rng.randrange(1, 40)]
        else:
            other = rng.randrange(len(letters))
            letters[at], letters[other] = letters[other], letters[at]
    return "".join(letters)


def keys(rows):
    return Counter(
        (row["op"], row["devices"], row.get("size_bytes"), row["time_s"]) for row in rows
    )


def trial(name, times, seed, folder):
    """How often each outcome came about, and the rows that were changed with nothing said."""
    text, more, _ = SAMPLES[name]
    rng, path = random.Random(seed), Path(folder) / "x.log"
    path.write_text(text)
    original = keys(read_rows(path, **more).rows)
    outcome, unseen = Counter(), []
    for _ in range(times):
        path.write_text(damaged(text, rng))
        try:
            found = read_rows(path, **more)
        except MeasurementError:
            outcome["refused"] += 1
            continue
        rows = keys(found.rows)
        if changed := rows - original:
            outcome["changed"] += 1
            unseen.append(next(iter(changed)))
        if found.log.skipped_count:
            outcome["reported"] += 1
        elif rows.total() < original.total():
            outcome["lost"] += 1
    return outcome, unseen


if __name__ == "__main__":
    number = int(sys.argv[1])
    with tempfile.TemporaryDirectory() as scratch:
        for format_name in sys.argv[2:] or SAMPLES:
            found, _ = trial(format_name, number, 0, scratch)
            print(f"{format_name}: {number} mutations, {dict(found)}", flush=True)

"""Damage logs at random, and hold what a reader makes of them against what can be known.

    python tests/mutated_logs.py 100000 ["nccl-tests" ...]

For each format: how many files were read as if whole, reported in part, or refused; how many hold a
row that is not the sample's, and yet is one that the benchmark could have printed (`forged`:
`readers_printed` says when); and, which must be none, crashes, rows changed and rows lost that
nothing was said of.
"""

import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from readers_printed import agree, excused, key
from readers_samples import SAMPLES

from scaleopt.data.measurements import MeasurementError
from scaleopt.data.readers.read import read_rows


def damaged(text, rng):
    """A text with one to three characters changed, left out, added or exchanged, or a piece cut."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if not text:
            break
        at, kind = rng.randrange(len(text)), rng.randrange(6)
        if kind == 0:
            text = text[:at] + chr(rng.randrange(32, 127)) + text[at + 1 :]
        elif kind == 1:
            text = text[:at] + text[at + 1 :]
        elif kind == 2:
            text = text[:at] + chr(rng.randrange(32, 127)) + text[at:]
        elif kind == 3:
            text = text[:at] + str(rng.randrange(10)) + text[at + 1 :]
        elif kind == 4:
            text = text[:at] + text[at + rng.randrange(1, 40) :]
        else:
            a, b = sorted((at, rng.randrange(len(text))))
            if a < b:
                text = text[:a] + text[b] + text[a + 1 : b] + text[a] + text[b + 1 :]
    return text


def trial(name, times, seed, folder):
    """How often each outcome came about, and the texts that a row was silently wrong or lost of."""
    text, more, _ = SAMPLES[name]
    rng, path = random.Random(f"{name} {seed}"), Path(folder) / f"{seed}.log"
    path.write_text(text)
    whole = read_rows(path, **more)
    originals = [key(row) for row in whole.log.gathered.rows]
    outcome, silent = Counter(), []
    for _ in range(times):
        broken = damaged(text, rng)
        path.write_text(broken)
        try:
            found = read_rows(path, **more)
        except MeasurementError:
            outcome["refused"] += 1
            continue
        rows = Counter(map(key, found.log.gathered.rows))
        said = found.log.skipped_count or set(found.log.notes) - set(whole.log.notes)
        if said:
            rows = _filled(rows, originals)
        wrong = rows - Counter(originals)
        missing = not wrong and not said and rows.total() < len(originals)
        if not wrong and not missing:
            outcome["reported" if said else "whole"] += 1
        elif excused(name, broken, originals, wrong, rows.total(), said):
            outcome["forged" if wrong else "shorter"] += 1
        else:
            outcome["SILENT"] += 1
            silent.append((broken, wrong))
    return outcome, silent


def _filled(rows, originals):
    """Rows that say nothing of nodes or dtype, where damage was reported, with what was there."""
    filled = Counter()
    for row, times in rows.items():
        full = next((other for other in originals if agree(row, other, True)), row)
        filled[full] += times
    return filled


def _share(job):
    name, times, seed, folder = job
    return name, *trial(name, times, seed, folder)


def _all(names, number):
    """Every format's outcomes, on all processors, in pieces of 2,500."""
    piece = 2500
    with tempfile.TemporaryDirectory() as folder, multiprocessing.Pool() as pool:
        for name in names:
            start, total, examples = time.monotonic(), Counter(), []
            starts = range(0, number, piece)
            jobs = [(name, min(piece, number - at), at, folder) for at in starts]
            for _, outcome, silent in pool.imap_unordered(_share, jobs):
                total += outcome
                examples += silent
            took = time.monotonic() - start
            print(f"{name}: {total.total()} mutations, {dict(total)}, {took:.0f} s", flush=True)
            for broken, wrong in examples[:9]:
                print(f"--- {dict(wrong)}\n{broken}", flush=True)


if __name__ == "__main__":
    _all(sys.argv[2:] or SAMPLES, int(sys.argv[1]))

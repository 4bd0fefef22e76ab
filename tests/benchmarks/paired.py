"""Two ways to one answer, timed in turns: a claim of speed is the ratio of the two in one run."""

from time import perf_counter

import numpy as np


def paired(benchmark, ours, theirs, rounds):
    """What either gives, and how many times as long ours takes.

    In turns, so that whatever else the machine does meanwhile falls on both. The ratio is of the
    medians, and stands in the printed table; it is 0 where nothing is timed and each runs once.
    """
    seconds, given = [], []

    def their_turn():
        begun = perf_counter()
        given[:] = [theirs()]
        seconds.append(perf_counter() - begun)

    mine = benchmark.pedantic(ours, setup=their_turn, rounds=rounds, warmup_rounds=1)
    if not benchmark.stats:
        return mine, given[0], 0.0
    ratio = benchmark.stats.stats.median / np.median(seconds[1:])
    benchmark.stats.group = f"{benchmark.group}: {ratio:.3g} times what the peer takes"
    return mine, given[0], ratio

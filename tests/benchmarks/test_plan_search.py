"""Configurations scored a second: the search, and its tiles against the same sums in NumPy.

Command: pytest tests/benchmarks/test_plan_search.py --benchmark-enable

All in float64, with the check of memory and the best option of each layout. GPT-3's shape on up to
4,096 devices, nodes of 8. `extra_info` has the configurations of a call; divided by its median that
is the rate. Without the option each runs once, untimed, and both are compared. A whole plan from
cold is timed in a process of its own: with an empty cache it imports, compiles and searches.
"""

import subprocess
import sys

import jax
import numpy as np
import pytest

import scaleopt as so
from scaleopt.models.memory import Precision
from scaleopt.planning.layouts import Layouts, tiles
from scaleopt.planning.options import Options
from scaleopt.planning.search import TILE, best_options, search
from scaleopt.planning.tables import Problem, entries, tables

MACHINE = so.Machine(
    rate=250e12,
    bandwidth=1.5e12,
    alpha=8e-6,
    beta=1 / 200e9,
    network_alpha=2e-5,
    network_beta=1 / 20e9,
    grain=60.0,
    kernel=1e-4,
    host=5e-4,
    step_overhead=0.01,
)
GPT3 = so.Transformer(hidden=12288, layers=96, heads=96, seq_len=2048, vocab=51200, dropout=True)
MEMORY = 72e9
OPTIONS = Options()


@pytest.fixture(scope="module")
def problem():
    """Layouts with their tables."""
    devices = np.concatenate([[1, 2, 4], np.arange(8, 4097, 8)])
    layouts = Layouts(GPT3, devices, np.arange(384, 1025, 64), 8)
    return layouts, tables(Problem.of(GPT3, MACHINE, Precision()), layouts, OPTIONS)


@pytest.fixture(scope="module")
def tile(problem):
    """A tile from the middle, with its entries of the tables."""
    layouts, table = problem
    listed = [part for part, true in tiles(iter(layouts), TILE) if true == TILE]
    return entries(table, np.ascontiguousarray(listed[len(listed) // 2]))


def in_numpy(found):
    """The same sums, in NumPy's own way."""
    _, pipeline, chunks, _, _, batches = found.axes[:, :, None]
    most = np.minimum(pipeline * chunks + pipeline - 1, batches * chunks) / chunks
    flight = np.where(chunks > 1, most, np.minimum(pipeline, batches))
    once, each, fill, passed, rest, kept = np.moveaxis(found.stages, 1, 0)
    seconds = once + batches * (each + chunks * passed) + fill / chunks
    factor = np.select(
        [found.zero >= 3, found.zero >= 2],
        [1.5 * batches * np.ones(4), (batches + 1) / 2 * np.ones(4)],
        1.0,
    )
    data, saved = found.data[:, :, None].transpose(1, 0, 2)
    seconds = seconds[:, :, None] + (data * factor - np.where(found.zero > 0, saved, 0))[:, None]
    held = (rest + flight * kept)[:, :, None] + found.states[:, None]
    seconds, held = (np.reshape(part, (len(batches), -1)) for part in (seconds, held))
    fitting = np.where(held <= MEMORY, seconds, np.inf)
    option = fitting.argmin(1)
    place = np.arange(len(option))
    return fitting[place, option], option, held[place, option], seconds.min(1)


@pytest.mark.benchmark(group="a tile of 98,304 configurations", min_rounds=50)
def test_compiled(benchmark, tile):
    slowest = np.full(TILE, np.inf)
    benchmark.extra_info["configurations"] = TILE * 24

    def run():
        with jax.enable_x64(True):
            return jax.block_until_ready(best_options(tile, MEMORY, slowest))

    run()
    found = benchmark(run)
    for mine, theirs in zip(found[:4], in_numpy(tile), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)


@pytest.mark.benchmark(group="a tile of 98,304 configurations", min_rounds=50)
def test_numpy(benchmark, tile):
    benchmark.extra_info["configurations"] = TILE * 24
    benchmark(in_numpy, tile)


@pytest.mark.benchmark(group="a whole search", min_rounds=5)
def test_search(benchmark, problem):
    layouts, table = problem

    def run():
        return search(
            table,
            layouts,
            OPTIONS,
            MEMORY,
            lambda devices, batch: np.full(len(devices), np.inf),
            lambda seconds, devices, batch: seconds / batch,
        )

    found = benchmark(run)
    benchmark.extra_info["configurations"] = found.configurations
    assert found.configurations > 1_000_000


COLD = """
import scaleopt as so
gpt = so.Transformer(hidden=12288, layers=96, heads=96, seq_len=2048, vocab=51200, dropout=True)
machine = so.Machine(rate=250e12, bandwidth=1.5e12, alpha=8e-6, beta=1 / 200e9,
                     network_alpha=2e-5, network_beta=1 / 20e9, grain=60.0, host=5e-4)
found = so.plan(gpt, machine, devices={devices}, memory=80e9, global_batch={batch},
                tokens=300e9, price=2 / 3600, objective="cost", deadline=100 * 86400)
print(found.best.devices, found.configurations)
"""


@pytest.mark.benchmark(group="a whole plan from cold", min_rounds=3)
@pytest.mark.parametrize(("devices", "batch"), [(4096, 1536), (100_000, [1536, 2048, 4096])])
def test_cold(benchmark, devices, batch, tmp_path):
    code = COLD.format(devices=devices, batch=batch)

    def run():
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )

    if not benchmark.enabled:
        pytest.skip("only timed")
    _, configurations = benchmark(run).stdout.split()
    benchmark.extra_info["configurations"] = int(configurations)

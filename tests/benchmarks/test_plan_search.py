"""Configurations scored a second: the search, and its tiles against the same sums in NumPy.

Command: pytest tests/benchmarks/test_plan_search.py --benchmark-enable

All in float64, with the check of memory and the best option of each layout. GPT-3's shape on up to
4,096 devices, nodes of 8. `extra_info` has the configurations of a call; divided by its median that
is the rate. Without the option each runs once, untimed, and both are compared. A whole plan from
cold is timed in a process of its own: with an empty cache it imports, compiles and searches; so is
the command. A plan on a fit is timed with the 256 machines that are drawn from it.
"""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from paired import paired
from simulated_machine import MACHINE, training_runs, without_habits

import scaleopt as so
from scaleopt.fitting.propagate import drawn_points
from scaleopt.models.memory import Precision
from scaleopt.planning.odds.certainty import certainty
from scaleopt.planning.searching.entries import entries
from scaleopt.planning.searching.layouts import AXES, Layouts, tiles
from scaleopt.planning.searching.options import Options
from scaleopt.planning.searching.search import TILE, best_options, search
from scaleopt.planning.searching.tables import Problem, tables

GPT3 = so.Transformer(hidden=12288, layers=96, heads=96, seq_len=2048, vocab=51200, dropout=True)
MEMORY = 72e9
OPTIONS = Options()


@pytest.fixture(scope="module")
def problem():
    """Layouts with their tables."""
    devices = np.concatenate([[1, 2, 4], np.arange(8, 4097, 8)])
    layouts = Layouts(GPT3, devices, np.arange(384, 1025, 64), 8)
    machine = replace(MACHINE, overlap=0.4)
    return layouts, tables(Problem.of(GPT3, machine, Precision()), layouts, OPTIONS)


@pytest.fixture(scope="module")
def tile(problem):
    """A tile from the middle, with its entries of the tables."""
    layouts, table = problem
    listed = [part for part, true in tiles(iter(layouts), TILE) if true == TILE]
    return entries(table, np.ascontiguousarray(listed[len(listed) // 2]))


def in_numpy(found):
    """The same sums, in NumPy's own way."""
    at = dict(zip(AXES, found.axes[:, :, None], strict=True))
    pipeline, chunks, batches = (at[name] for name in ("pipeline", "interleave", "accumulation"))
    most = np.minimum(pipeline * chunks + pipeline - 1, batches * chunks) / chunks
    flight = np.where(chunks > 1, most, np.minimum(pipeline, batches))
    once, each, fill, passed, rest, kept = np.moveaxis(found.stages, 1, 0)
    seconds = once + batches * (each + chunks * passed) + fill / chunks
    summed, gathered, overlap, saved = found.data[:, :, None].transpose(1, 0, 2)
    stages = [found.zero >= 3, found.zero >= 2, found.zero >= 1]
    single = np.select(stages, [0 * summed, gathered, summed / 2 + gathered], summed)
    often = np.select(stages[:2], [summed / 2 + 2 * gathered, summed / 2], 0.0)
    data = single * (1 - overlap / batches) + often * batches * (1 - overlap)
    seconds = seconds[:, :, None] + (data - np.where(found.zero > 0, saved, 0))[:, None]
    held = (rest + flight * kept)[:, :, None] + found.states[:, None]
    seconds, held = (np.reshape(part, (len(batches), -1)) for part in (seconds, held))
    fitting = np.where(held <= MEMORY, seconds, np.inf)
    option = fitting.argmin(1)
    place = np.arange(len(option))
    return fitting[place, option], option, held[place, option], seconds.min(1)


@pytest.mark.benchmark(group="a tile of 98,304 configurations")
def test_a_tile_takes_less_than_in_numpy(benchmark, tile):
    slowest = np.full(TILE, np.inf)
    benchmark.extra_info["configurations"] = TILE * 24

    def compiled():
        with jax.enable_x64(True):
            return jax.block_until_ready(best_options(tile, MEMORY, slowest))

    found, summed, ratio = paired(benchmark, compiled, lambda: in_numpy(tile), rounds=50)
    for mine, theirs in zip(found[:4], summed, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)
    assert ratio < 1


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
@pytest.mark.parametrize(
    ("devices", "batch", "seconds"), [(4096, 1536, 3.0), (100_000, [1536, 2048, 4096], 10.0)]
)
def test_cold(benchmark, devices, batch, seconds):
    code = COLD.format(devices=devices, batch=batch)

    def run():
        return subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )

    if not benchmark.enabled:
        pytest.skip("only timed")
    _, configurations = benchmark(run).stdout.split()
    benchmark.extra_info["configurations"] = int(configurations)
    assert benchmark.stats["median"] < seconds


@pytest.mark.benchmark(group="a whole command from cold", min_rounds=3)
def test_command(benchmark):
    example = Path(__file__).parents[2] / "examples" / "70b.toml"

    def run():
        command = [sys.executable, "-m", "scaleopt", "plan", str(example)]
        return subprocess.run(command, capture_output=True, text=True, check=True)

    if not benchmark.enabled:
        pytest.skip("only timed")
    assert benchmark(run).stdout.startswith("Best for time")


@pytest.fixture(scope="module")
def fit():
    return so.calibrate(training_runs(MACHINE))


RUN = {"devices": 4096, "global_batch": 1536, "memory": 80e9, "price": 2 / 3600, "tokens": 300e9}
DRAWS = 256


@pytest.mark.benchmark(group="a plan and 256 machines drawn from the fit", min_rounds=5)
def test_drawn(benchmark, fit):
    """The whole plan, and what is best on each of the machines; the first one compiles."""
    found = so.plan(GPT3, fit, objective="cost", draws=DRAWS, **RUN)
    assert found.certainty is not None
    assert found.certainty.draws == DRAWS
    benchmark(lambda: so.plan(GPT3, fit, objective="cost", draws=DRAWS, **RUN))
    if benchmark.enabled:
        assert benchmark.stats["median"] < 1.0


def test_no_drawn_machine_is_best_with_what_was_left_out(fit):
    """Candidates are the best layouts by the fitted machine; here each machine has all of them."""
    draws, fit = 4, without_habits(fit)
    found = so.plan(GPT3, fit, objective="cost", **RUN)
    assert found.best is not None
    sure = certainty(found.searched, found.best, draws=draws, level=0.9)
    with jax.enable_x64(True):
        points = drawn_points(fit, draws)
        values = [np.asarray(points._replace(u=u).values()) for u in np.asarray(points.u)]
    machines = [jax.tree.map(float, fit.parameters.model(drawn)) for drawn in values]
    winners = {str(so.plan(GPT3, it, objective="cost", **RUN).best) for it in machines}
    assert {str(candidate.found) for candidate in sure.candidates} == winners

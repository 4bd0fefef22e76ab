"""Fits: a thousand tables at once against statsmodels, one against scipy, a cold command.

Command: pytest tests/benchmarks/test_fits.py --benchmark-enable

The law is Amdahl's with 3 % noise and 5 % of the rows tripled, 240 rows a table. statsmodels' RLM,
whose laws are linear in their coefficients, fits the relative residuals T/T_measured − 1 with the
same loss; scipy's `curve_fit` fits the logs with a robust loss, once as a warm call and once in a
script of its own. Without the option each runs once, untimed, on fewer tables, and the answers are
compared.

A thousand tables take less than a fifth of what statsmodels takes for them, a warm fit, with its
checks, its intervals and what it cannot tell, about as long as scipy's, and a cold command less
than two scripts.
"""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from jax.tree_util import Partial
from paired import paired
from scipy.optimize import curve_fit

import scaleopt as so

TABLES = 1000
DEVICES = np.tile([1.0, 2.0, 4.0, 8.0, 16.0, 32.0], 40)
SERIAL, WORK, NOISE = 0.5, 12.0, 0.03
CALLS = 20
"""Warm calls in a turn."""


def amdahl(devices, *, serial, work):
    return serial + work / devices


def times(tables):
    random = np.random.default_rng(0)
    scatter = np.exp(random.normal(0, NOISE, (tables, DEVICES.size)))
    slow = np.where(random.random(scatter.shape) < 0.05, 3.0, 1.0)
    return (SERIAL + WORK / DEVICES) * scatter * slow


def table_of(time):
    return pd.DataFrame({"op": "step", "devices": DEVICES, "time_s": time})


def law():
    return Partial(amdahl, serial=1.0, work=1.0)


@pytest.fixture
def tables(request):
    """A thousand where they are timed, fewer else."""
    return TABLES if request.config.getoption("benchmark_enable") else 20


def judged(estimate):
    """Each table's estimate within five of its standard errors, some 0.5 %, of the truth."""
    np.testing.assert_allclose(estimate, np.broadcast_to([SERIAL, WORK], estimate.shape), rtol=0.04)


@pytest.mark.benchmark(group="robust fits with intervals of 1,000 tables")
def test_a_thousand_at_once_take_less_than_a_fifth_of_one_by_one(benchmark, tables):
    api = pytest.importorskip("statsmodels.api", reason="pip install statsmodels to compare")
    measured = times(tables)
    one = so.fit(law(), table_of(measured[0]))

    def at_once():
        found = so.fit_many(one, measured)
        return found.estimate, found.ranges(0.95)

    def one_by_one():
        found = []
        for time in measured:
            design = np.stack([1 / time, 1 / DEVICES / time], axis=1)
            fit = api.RLM(np.ones(len(time)), design, M=api.robust.norms.TukeyBiweight()).fit()
            found.append((fit.params, fit.conf_int(0.05)))
        return np.array([params for params, _ in found])

    (estimate, (low, high)), theirs, ratio = paired(benchmark, at_once, one_by_one, rounds=3)
    judged(estimate)
    judged(theirs)
    assert np.mean((low < WORK) & (high > WORK), axis=0)[1] > 0.8
    assert ratio < 1 / 5


@pytest.mark.benchmark(group="one warm fit")
def test_a_warm_fit_takes_about_as_long_as_scipys(benchmark):
    table = table_of(times(1)[0])

    def ours():
        return [so.fit(law(), table) for _ in range(CALLS)][-1].estimate

    def scipys():
        robust = {"method": "trf", "loss": "soft_l1", "f_scale": NOISE}
        return [by_scipy(table, **robust) for _ in range(CALLS)][-1]

    mine, theirs, ratio = paired(benchmark, ours, scipys, rounds=15)
    judged(mine)
    judged(theirs)
    # Measured as 0.75 to 1.21 in nine runs: both take one of two paces, as the processor has it.
    assert ratio < 1.4


def by_scipy(table, **how):
    def log_time(devices, serial, work):
        return np.log(np.exp(serial) + np.exp(work) / devices)

    devices, time = table["devices"].to_numpy(), table["time_s"].to_numpy()
    return np.exp(curve_fit(log_time, devices, np.log(time), p0=(0.0, 0.0), **how)[0])


SCIPY_SCRIPT = """
import sys
import numpy as np
import pandas as pd
from scipy.optimize import curve_fit
table = pd.read_csv(sys.argv[1], comment="#")
step = (table["op"] == "step").to_numpy()
n, w, m, t = (table[c].to_numpy(float) for c in ("devices", "flops", "size_bytes", "time_s"))
def log_time(rows, rate, alpha, beta, serial, launch):
    rate, alpha, beta, serial, launch = np.exp([rate, alpha, beta, serial, launch])
    reduced = 2 * (n - 1) * alpha + 2 * (n - 1) / n * beta * m
    return np.log(np.where(step, serial + np.nan_to_num(w) / (n * rate), 0) + launch + reduced)
start = np.log([1e14, 1e-5, 1e-10, 1e-2, 1e-6])
found, spread = curve_fit(
    log_time, np.arange(len(t)), np.log(t), start, method="trf", loss="soft_l1", f_scale=0.03
)
print(np.exp(found), np.sqrt(np.diag(spread)))
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    import simulated

    path = tmp_path_factory.mktemp("cold") / "table.csv"
    context = {"device_kind": "simulated", "devices": 8, "platform": "gpu"}
    so.write_measurements(path, simulated.table(0, wild=0.05), context)
    return path


def ended(command):
    return subprocess.run(command, capture_output=True, text=True, check=True)


@pytest.mark.benchmark(group="one cold fit of a file")
def test_a_cold_command_takes_less_than_two_scripts(benchmark, file):
    command, script = (
        [sys.executable, *rest, str(file)]
        for rest in (("-m", "scaleopt", "fit"), ("-c", SCIPY_SCRIPT))
    )
    mine, theirs, ratio = paired(benchmark, lambda: ended(command), lambda: ended(script), rounds=3)
    assert "alpha" in mine.stdout
    assert "e+14" in theirs.stdout
    assert ratio < 2

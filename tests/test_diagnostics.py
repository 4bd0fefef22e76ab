"""The pictures show the fit's own numbers, and say what they cannot show."""

import dataclasses
from typing import Any

import jax
import numpy as np
import pandas as pd
import pytest
import scipy
import simulated
from jax.tree_util import Partial
from matplotlib.figure import Figure

import scaleopt as so
from scaleopt.fitting.squares import Squares
from scaleopt.fitting.valley import correlations, valley
from scaleopt.show.diagnostics import save_diagnostics
from scaleopt.show.diagnostics_rows import rows_against


@pytest.fixture(scope="module")
def fit():
    return so.calibrate(simulated.table(0, wild=0.05))


def amdahl(devices, *, serial, work):
    return serial + work / devices


FEW = pd.DataFrame({"op": "step", "devices": [1, 2, 4, 8], "time_s": [9.1, 5, 2.9, 2]})
LAW = Partial(amdahl, serial=2.0, work=5.0)


def panels_of(figure: Any) -> list[Any]:
    return [axes for part in figure.subfigs or [figure] for axes in part.axes]


def lines(axes: Any, marker) -> list[Any]:
    return [line for line in axes.get_lines() if line.get_marker() == marker]


def drawn(axes, *markers):
    return np.sort(np.concatenate([line.get_ydata() for it in markers for line in lines(axes, it)]))


def test_residuals_are_those_of_the_fit(fit):
    figure = so.draw_residuals(fit)
    step = fit.rows[fit.rows["op"] == "step"]
    ratio = np.sort(step["time_s"] / step["predicted_s"])
    axes = panels_of(figure)[2]
    low, high = axes.get_ylim()
    assert axes.get_xlabel() == "devices N"
    # Rows beyond the panel stand at its edge.
    np.testing.assert_allclose(drawn(axes, "o", "x", "s"), np.clip(ratio, low, high))
    cells = (step["time_s"] / step["predicted_s"]).groupby(
        [step["devices"], step["flops"], step["size_bytes"]]
    )
    np.testing.assert_allclose(drawn(axes, "D"), np.sort(cells.median()))


def test_the_shaded_range_is_the_one_that_the_fit_states(fit):
    axes = panels_of(so.draw_residuals(fit, level=0.9))[3]
    corners = axes.collections[0].get_paths()[0].vertices
    rows = fit.rows[fit.rows["op"] == "all_reduce"]
    at = rows["size_bytes"] == 1e9
    time, _, high = fit.predict(rows[at], level=0.9)
    upper = corners[np.isclose(corners[:, 0], 1e9), 1].max()
    assert upper == pytest.approx(np.median(high / time), rel=1e-9)


def test_outliers_are_as_many_as_the_fit_counts(fit):
    figure = so.draw_predicted(fit)
    for axes, noise in zip(panels_of(figure), fit.noise, strict=True):
        (crosses,) = lines(axes, "x")
        assert len(crosses.get_xdata()) == noise.outliers > 0
        rows = fit.rows[fit.rows["op"] == noise.name]
        np.testing.assert_allclose(drawn(axes, "o", "x"), np.sort(rows["time_s"]))


def test_rows_that_were_not_fitted_are_drawn_too(fit):
    rows = rows_against(fit, simulated.table(7), 0.9)
    assert len(rows) == 240
    assert not rows["outlier"].any()
    # 240 rows at 90 %, correlated through the fit: four standard deviations of a binomial.
    assert abs(rows["inside"].mean() - 0.9) < 0.08


def test_the_valley_near_the_best_point_is_the_covariance(fit):
    found = valley(fit)
    assert found.names == ("alpha", "launch")
    assert found.correlation == pytest.approx(correlations(fit)[1, 4])
    assert not found.open
    assert found.followed
    assert found.square is not None
    near = found.square < 0.5
    # The loss is a square there but for its third derivatives, some percent of a level.
    np.testing.assert_allclose(found.share[near], found.square[near], atol=0.05)
    assert found.grid[1].min() < 0 < found.grid[1].max()


def test_following_the_loss_is_solving_every_row_anew(fit):
    pair = np.array([1, 4])
    steps = np.array([[1.0, -1.0], [-2.0, 1.5], [0.0, 2.0]]) * fit.covariance.deviation[pair]
    point = fit.point
    with jax.enable_x64(True):
        excess, _ = Squares.of(fit.problem, point).excess(pair, steps)
        held = point._replace(frozen=np.ones(5, bool))
        there = fit.problem.solved(type(point)(*(np.asarray(each)[None] for each in held)))
    scale, time = there.row_scale[0], fit.rows["time_s"].to_numpy(float)
    step = (fit.rows["op"] == "step").to_numpy()

    def miss(u):
        rate, alpha, beta, serial, launch = np.where(
            np.asarray(point.coordinate) == 0, np.exp(u), np.asarray(point.scale) * u
        )
        devices, flops, size = (fit.rows[name] for name in ("devices", "flops", "size_bytes"))
        reduced = launch + 2 * (devices - 1) * (alpha + beta * size / devices)
        step_s = serial + flops / (devices * rate) + reduced
        # StepTime pays the launch once, on one device too.
        return (np.log(time) - np.log(np.where(step, step_s, reduced))) / scale

    best = np.asarray(point.u)
    say = np.maximum(1 - (miss(best) / 4.685) ** 2, 0.0) ** 2
    sums = []
    for shift in [np.zeros(2), *steps]:

        def held_miss(rest, shift=shift):
            u = best.copy()
            u[[0, 2, 3]], u[pair] = rest, best[pair] + shift
            return np.sqrt(say) * miss(u)

        sums.append(2 * scipy.optimize.least_squares(held_miss, best[[0, 2, 3]], x_scale=0.01).cost)
    # Both searches end where a step gains less than 1e-4 of a squared deviation.
    np.testing.assert_allclose(excess, np.array(sums[1:]) - sums[0], rtol=1e-3, atol=1e-3)


def test_an_open_valley_is_said_to_be(fit):
    table = simulated.table(0, works=(1e14,), sizes=(1e10,), reduced=())
    blind = so.calibrate(table)
    found = valley(blind, "beta", "serial_time")
    assert found.open
    assert found.square is None
    assert np.isnan(found.correlation)
    # Whatever beta is, some serial time makes up for it, up to all of the time there is.
    assert (found.share.min(axis=1) < 0.95).all()
    figure = so.draw_valley(blind)
    assert "open" in figure.get_suptitle()


def test_a_name_chooses_its_partner(fit):
    assert valley(fit, "launch").names == ("launch", "alpha")
    assert valley(fit, "beta", "rate").names == ("beta", "rate")
    with pytest.raises(ValueError, match="'latency' is no free parameter"):
        so.draw_valley(fit, "latency")


@pytest.mark.parametrize(
    "table",
    [
        FEW,
        FEW[:2],
        FEW.assign(devices=4),
        pd.concat([FEW] * 3),
        FEW.assign(time_s=[9.0, 5.0, 3.0, 2.0]),
    ],
    ids=["four rows", "two rows", "one N", "equal repeats", "no noise"],
)
def test_degenerate_fits_are_drawn(table, tmp_path):
    fit = so.fit(LAW, table)
    assert fit.failure is None
    save_diagnostics(fit, tmp_path / "picture.svg")
    assert (tmp_path / "picture.svg").stat().st_size > 10_000


def test_one_parameter_has_no_valley(tmp_path):
    one = so.fit(LAW, FEW, fixed=("serial",))
    save_diagnostics(one, tmp_path / "picture.svg")
    with pytest.raises(ValueError, match="one free parameter, work; a valley is of two"):
        so.draw_valley(one)


def test_a_collective_is_drawn_with_its_table():
    works = [(n, m) for n in (2, 4, 8) for m in (1e3, 1e5, 1e7, 1e9)]
    table = pd.DataFrame(works, columns=["devices", "size_bytes"]).assign(op="all_reduce")
    table["time_s"] = [float(so.all_reduce_time(m, n, 5e-6, 1e-11)) for n, m in works]
    fit = so.fit_collective(table)
    assert isinstance(so.draw_residuals(fit, table), Figure)
    with pytest.raises(ValueError, match="does not keep its rows"):
        so.draw_predicted(fit)
    with pytest.raises(TypeError, match="no covariance"):
        so.draw_valley(fit)  # pyright: ignore


def test_what_cannot_be_drawn_is_said(fit):
    failed = dataclasses.replace(fit, failure="the search did not settle")
    for draw in (so.draw_residuals, so.draw_predicted, so.draw_valley):
        with pytest.raises(ValueError, match="the fit failed: the search did not settle"):
            draw(failed)
    with pytest.raises(TypeError, match="ScalingFit has no rows of a kind"):
        so.draw_residuals(so.fit_scaling([1, 2, 4, 8], time_s=[9, 5, 3, 2]))  # pyright: ignore
    with pytest.raises(ValueError, match="no row is of a kind that was fitted"):
        so.draw_residuals(fit, FEW.assign(op="stream"))

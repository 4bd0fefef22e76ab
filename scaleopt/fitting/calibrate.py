"""One machine, several kinds of rows: matmuls, all-reduces and steps fitted jointly.

Each kind sees a part of the step model: chains of matmuls the rate and the launch, all-reduces the
launch, α and β, steps the serial time and how much of the matmul rate a step reaches. Shared
parameters are what makes each of them identifiable:

matmul:      T = launch + k W / (N r)
all_reduce:  T = launch + k [2(N − 1) α + 2 ((N − 1)/N) β M]
step:        T = StepTime(N, W, M) + injected

with k operations in the program.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax import Array

from scaleopt.data.schema import OPS
from scaleopt.fitting.columns import columns_of, kinds_of
from scaleopt.fitting.estimate import estimate
from scaleopt.fitting.fit import check_numbers, check_rows, weights_of
from scaleopt.fitting.parameters import free_parameters
from scaleopt.fitting.prior import Prior
from scaleopt.fitting.result import Fit
from scaleopt.models.collectives import all_reduce_time
from scaleopt.models.step import StepTime

KINDS = ("matmul", "all_reduce", "step")
"""The kinds of rows that a step model explains."""

_COLUMNS = ("op", "devices", "flops", "size", "operations", "injected")
_NEEDED = {"matmul": "flops", "all_reduce": "size_bytes", "step": "flops"}
_WHY = {
    "matmul": ": memory limits them, or they are of another type than the steps",
    "step": ": they were not waited for one by one",
}
_FAINT = 0.01
_ROUNDING = 1e-13
_NEGLIGIBLE = 1e-30
_PLACES = {
    "rate": 1.0,
    "alpha": 1.0,
    "beta": 1.0,
    "serial_time": 1.0,
    "launch": 1.0,
    "compute_efficiency": 0.5,
}
"""A place for each parameter; the values are replaced by the start."""


class ObserveStepTime(eqx.Module):
    """Seconds that a step model predicts for rows of every kind."""

    def __call__(self, model: StepTime, columns: dict[str, Array]) -> Array:
        """The seconds of each row."""
        devices, flops, size = (columns[name] for name in ("devices", "flops", "size"))
        count, injected = columns.get("operations", 1.0), columns.get("injected", 0.0)
        op = columns.get("op", OPS.index("step"))
        matmul = model.launch + count * flops / (devices * model.rate)
        reduced = all_reduce_time(size, devices, model.alpha, model.beta)
        step = model(devices, flops, size) + injected
        alone = model.launch + count * reduced
        waited = jnp.where(op == OPS.index("all_reduce"), alone, step)
        return jnp.where(op == OPS.index("matmul"), matmul, waited)


def calibrate(
    table: pd.DataFrame,
    *,
    fixed: Mapping[str, float] | None = None,
    priors: Mapping[str, Prior] | None = None,
    weights: str | None = None,
) -> Fit[Any]:
    """Fit the step model to every row that it explains.

    Minimises Tukey's loss of log measured − log predicted over all kinds of rows at once, each kind
    weighted by its own noise.

    Args:
        table: rows of kind matmul, all_reduce and step, as `read_measurements` returns them;
            other kinds are left out, and a note says so. Steps on several devices need
            `size_bytes`. Or rows of kind train_step, alone or with matmul, stream and all_reduce.
        fixed: parameters that are known, such as {"overlap": 0.5}.
        priors: what is known before of others, such as {"alpha": so.Prior(5e-6, 1.5)}.
        weights: a column that says how many rows like it each row is the mean of.

    Returns:
        The fit of a `StepTime`, or of a `Machine` where rows are of kind train_step. A
        parameter that no row depends on is not told: its interval is unbounded, and so is whatever
        hangs on it.

    Raises:
        ValueError: no row of these kinds, a missing column or cell, a time that is not positive.
        TypeError: something that is not a table.

    >>> step = StepTime(rate=1e12, alpha=1e-5, beta=1e-10, serial_time=0.01)
    >>> works = [(n, w, m) for n in (1, 2, 4) for w in (1e10, 1e11) for m in (1e6, 1e9)]
    >>> table = pd.DataFrame(works, columns=["devices", "flops", "size_bytes"]).assign(op="step")
    >>> table["time_s"] = [float(step(*work)) for work in works]
    >>> fit = calibrate(table)
    >>> f"{fit.model.rate:.3g} FLOP/s, {fit.model.serial_time:.3g} s"
    '1e+12 FLOP/s, 0.01 s'

    Source: the model of `StepTime`; the estimator of `scaleopt.fitting.solve`.
    """
    if not isinstance(table, pd.DataFrame):
        raise TypeError(
            f"calibrate takes a table, not {type(table).__name__}; "
            "give read_measurements(path).table"
        )
    op = kinds_of(table) if "op" in table else np.full(len(table), None)
    if (op == "train_step").any():
        # Loaded where it is asked for: rows of the other kinds need no transformer.
        from scaleopt.fitting.train_step import fit_train_steps

        if weights:
            raise ValueError("train_step rows take no weights; give each run its rows instead")
        return fit_train_steps(table, fixed=fixed, priors=priors)
    used = _explained(table, op) if "op" in table else np.ones(len(table), bool)
    rows, of_rows = table.copy() if used.all() else table[used].copy(), op[used]
    for name in {"flops", "size_bytes"} - set(rows):
        rows[name] = np.nan
    if "op" in table and rows.empty:
        found = ", ".join(sorted(map(str, table["op"].unique()))) or "no rows at all"
        known = ", ".join([*KINDS, "train_step"])
        raise ValueError(f"no row of kind {known} to calibrate from; found: {found}")
    check_rows(rows, ["time_s", "devices"])
    for kind, needed in _NEEDED.items():
        check_numbers(rows, [needed], among=of_rows == kind)
    several = (of_rows == "step") & (rows["devices"].to_numpy() > 1)
    check_numbers(rows, ["size_bytes"], among=several)

    columns = columns_of(rows, _COLUMNS)
    merged, notes = _merged(set(of_rows))
    known = merged | _named(fixed or {})
    for kind, count in Counter(op[~used]).most_common():
        of_kind = (
            f"{count} of the {kind} rows" if kind in KINDS else f"Rows of kind {kind} ({count})"
        )
        verb = "is" if kind in KINDS and count == 1 else "are"
        notes.append(f"{of_kind} {verb} not used{_WHY.get(kind, '')}.")
    start = _start(columns, of_rows, rows["time_s"].to_numpy(float), known)
    parameters = free_parameters(StepTime(**(_PLACES | known)), tuple(known))
    return estimate(
        ObserveStepTime(),
        parameters,
        rows,
        columns,
        start=np.array([start[name] for name in parameters.names]),
        weights=None if weights is None else weights_of(rows, weights),
        priors=priors,
        notes=tuple(notes),
        remedy=_remedy,
    )


def _named(fixed: Mapping[str, float]) -> dict[str, float]:
    """The fixed parameters, each one of a step model and 0 or more."""
    fields = tuple(StepTime.__dataclass_fields__)
    for name, value in fixed.items():
        if name not in fields:
            raise ValueError(f"fixed[{name!r}]: a step model has {', '.join(fields)}")
        if not (np.isfinite(value) and value >= 0):
            raise ValueError(f"fixed[{name!r}] is {value}; it must be a finite number from 0 up")
    return {name: float(value) for name, value in fixed.items()}


def _explained(table: pd.DataFrame, op: np.ndarray) -> np.ndarray:
    """Which rows the model is about.

    Not products that memory limits or of another type than the steps', which have rates of their
    own, nor steps that were not waited for one by one, in which host work hides.
    """
    matmul, step = op == "matmul", op == "step"
    used = np.logical_or.reduce([op == kind for kind in KINDS])
    if "moved_bytes" in table:
        used &= ~(matmul & table["moved_bytes"].notna().to_numpy())
    if "dtype" in table:
        dtype = table["dtype"]
        of_steps = set(dtype[step].dropna())
        other = (dtype.notna() & ~dtype.isin(of_steps)).to_numpy()
        used &= ~(matmul & other & bool(of_steps))
    if "method" in table:
        used &= ~(step & table["method"].fillna("").str.startswith("chain").to_numpy(bool))
    return used


def _merged(kinds: set[str]) -> tuple[dict[str, float], list[str]]:
    """Parameters that rows of these kinds see only with another, and a sentence on each."""
    fixed = {"overlap": 0.0, "accumulation": 1.0, "imbalance": 0.0}
    notes = ["Communication is taken not to overlap with compute."]
    if not {"matmul", "step"} <= kinds:
        fixed["compute_efficiency"] = 1.0
        if kinds & {"matmul", "step"}:
            only = "step" if "step" in kinds else "matmul"
            notes.append(f"rate is what the {only} rows reach: only they show compute.")
    if kinds == {"step"}:
        fixed["launch"] = 0.0
        notes.append("serial_time includes the launch: step rows alone do not part them.")
    return fixed, notes


def _start(
    columns: dict[str, Any], op: np.ndarray, time: np.ndarray, fixed: dict[str, float]
) -> dict[str, float]:
    """A start that needs no guess: the model is linear in α, β, 1/r and the fixed times.

    Non-negative least squares of predicted/measured − 1, in which a row that took three times too
    long weighs at most as much as a miss by its whole time. What no row depends on starts where it
    costs next to nothing.
    """
    devices, step, matmul = columns["devices"], op == "step", op == "matmul"
    size, count = columns["size"], columns["operations"]
    work = columns["flops"] / devices
    apart = "compute_efficiency" not in fixed
    effects = {
        "matmul": count * work * (matmul | (step & (not apart))),
        "step": work * (step & apart),
        "alpha": np.where(matmul, 0.0, count * 2 * (devices - 1)),
        "beta": np.where(matmul, 0.0, count * 2 * (devices - 1) / devices * size),
        "serial_time": 1.0 * step,
        "launch": np.ones(len(time)),
    }
    injected = columns["injected"]
    used = [name for name, effect in effects.items() if name not in fixed and effect.any()]
    relative = np.stack([effects[name] / time for name in used], axis=1)
    length = np.linalg.norm(relative, axis=0)
    solved = _least_positive(relative / length, 1 - np.minimum(injected / time, 1.0)) / length
    # A logarithm does not move from 0: what came out as 0 starts at 1 % of its most affected row.
    started = np.where(solved > 0, solved, _FAINT / relative.max(axis=0))
    cost = dict.fromkeys(effects, _NEGLIGIBLE) | dict(zip(used, started.tolist(), strict=True))
    matmul_cost, step_cost = cost.pop("matmul"), cost.pop("step")
    return cost | {"rate": 1 / matmul_cost, "compute_efficiency": matmul_cost / step_cost}


def _least_positive(effects: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The x ≥ 0 of the least |effects x − target|; scipy's takes longer to load than a fit.

    Column after column joins, the one that helps most first; what would fall below 0 leaves.

    Source: C. L. Lawson and R. J. Hanson, "Solving Least Squares Problems", 1974, chapter 23.
    """
    found, taken = np.zeros(effects.shape[1]), np.zeros(effects.shape[1], bool)
    for _ in range(3 * len(found)):
        pull = np.where(taken, 0.0, effects.T @ (target - effects @ found))
        if pull.max() <= _ROUNDING * len(target):
            break
        taken[pull.argmax()] = True
        while True:
            tried = np.zeros_like(found)
            tried[taken] = np.linalg.lstsq(effects[:, taken], target)[0]
            if (tried[taken] > 0).all():
                break
            # As far towards it as nothing is below 0.
            low = taken & (tried <= 0)
            found += np.min(found[low] / (found[low] - tried[low])) * (tried - found)
            taken &= found > _ROUNDING
        found = tried
    return found


def _remedy(names: frozenset[str]) -> str:
    """Which measurement would tell a set of parameters apart."""
    if "beta" in names and "serial_time" in names:
        return (
            "Time all-reduces alone, at sizes from kilobytes to gigabytes, or steps with another "
            "gradient size."
        )
    if "launch" in names and "alpha" in names:
        return "Time chains of all-reduces, or all-reduces on more device counts."
    if "rate" in names and "compute_efficiency" in names:
        return "Time matmuls of another size."
    if names == {"rate"}:
        return "Time matmuls, or steps."
    if names == {"serial_time"}:
        return "Time steps."
    if names & {"alpha", "beta"}:
        return "Time all-reduces at small and large sizes and at several device counts."
    return "Add steps with other works and other device counts."

"""Which of several models the rows support, and what all of them together predict.

Each model is fitted without a part of the cells (a cell: rows that are repeats of one another) and
asked for them; its score is the log density that it gave to what was then measured. A model's
weight is its share of exp(score), averaged over what the scores would be if the cells had been
drawn anew: few cells that happen to agree do not settle it.

Source: Y. Yao, A. Vehtari, D. Simpson and A. Gelman, "Using stacking to average Bayesian predictive
distributions", Bayesian Analysis 13, 2018, section 3.4 (pseudo-BMA+).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import special, stats

from scaleopt.fitting.fit import fit
from scaleopt.fitting.many import problem_of, refit
from scaleopt.fitting.prediction import Prediction
from scaleopt.fitting.ranges import check_level
from scaleopt.fitting.result import Fit
from scaleopt.fitting.rows import Tables

_DEGREES = 4.0
"""Of the Student's t that a held-out miss is taken to follow: wild rows must not decide."""
_LOST = -50.0
"""Score of a cell for which a model had no answer."""
_RANKS, _DRAWS = 400, 2000
_NO_WEIGHT = 1e-3
_ONE_DEVIATION = 0.6826894921370859
_VERDICTS = ((0.95, "strong"), (0.75, "some"), (0.25, "undecided"), (0.0, "little"))


@dataclass(frozen=True, repr=False)
class Comparison:
    """Several models fitted to the same rows; made by `compare`."""

    fits: dict[str, Fit[Any]]
    """Each model fitted to all rows."""
    models: pd.DataFrame
    """A row a model, the best first: free `parameters`, the mean relative `held_out_miss`, the
    `score` of a held-out cell against the best model's, the standard error of that difference,
    and the model's `weight` in the average."""
    terms: pd.DataFrame
    """A row a parameter: the `support`, the weight of the models that have it, and in words."""

    def __repr__(self) -> str:
        return f"Comparison of {len(self.fits)} models\n{self.models.to_string()}"

    def predict(self, *, level: float = 0.9, **columns: Any) -> Prediction:
        """What the models predict together, each as far as its weight goes.

        Args:
            level: the share of measurements within the range.
            columns: as `Fit.predict` takes them; those that a model does not take are left out.

        Returns:
            The median of the mixture, and its range.
        """
        check_level(level)
        shape = np.broadcast_shapes(*(np.shape(value) for value in columns.values()))
        ranks = (np.arange(_RANKS) + 0.5) / _RANKS
        logs, weights = [], []
        for name, weight in self.models["weight"].items():
            found = self.fits[str(name)]
            if weight < _NO_WEIGHT or found.failure:
                continue
            used = {key: value for key, value in columns.items() if key in found.columns}
            time, _, high = found.predict(level=_ONE_DEVIATION, **used)
            time, high = np.broadcast_to(time, shape), np.broadcast_to(high, shape)
            with np.errstate(invalid="ignore"):
                deviation = np.log(high / time)
            logs.append(np.log(time)[..., None] + deviation[..., None] * special.ndtri(ranks))
            weights.append(np.full(_RANKS, weight / _RANKS))
        if not logs:
            nothing = np.zeros(shape)
            return Prediction(nothing + np.nan, nothing, nothing + np.inf)
        drawn, weight = np.concatenate(logs, axis=-1), np.concatenate(weights)
        order = np.argsort(drawn, axis=-1)
        drawn, reached = np.take_along_axis(drawn, order, -1), np.cumsum(weight[order], axis=-1)
        tail = (1 - level) / 2
        places = [
            np.argmax(reached >= p * reached[..., -1:], axis=-1) for p in (0.5, tail, 1 - tail)
        ]
        found = [
            np.exp(np.take_along_axis(drawn, place[..., None], -1)[..., 0]) for place in places
        ]
        return Prediction(*found)


def compare(
    models: Mapping[str, Any],
    table: pd.DataFrame,
    *,
    folds: int = 10,
    seed: int = 0,
    **options: Any,
) -> Comparison:
    """Fit several models to a table and say which of them, and which terms, the rows support.

    Args:
        models: by name, as `fit` takes them. A term is the same in two models where its parameter
            has the same name.
        table: the rows.
        folds: into how many parts the cells are put, each held out in turn; fewer cells than that
            are held out one by one.
        seed: of the order in which the cells are dealt out, and of the weights.
        options: as `fit` takes them, the same for all.

    Returns:
        The fits, the table of models, the table of terms, and their joint predictions.

    Raises:
        ValueError: fewer than two models, fewer than two folds or three cells, or what `fit`
            refuses.

    >>> from jax.tree_util import Partial
    >>> def amdahl(devices, *, serial, work):
    ...     return serial + work / devices
    >>> def ideal(devices, *, work):
    ...     return work / devices
    >>> time = [9.1, 5.0, 2.9, 2.0, 1.52, 9.0, 4.9, 3.0, 2.02, 1.49]
    >>> table = pd.DataFrame({"op": "step", "devices": [1, 2, 4, 8, 16] * 2, "time_s": time})
    >>> laws = {"ideal": Partial(ideal, work=9.0), "amdahl": Partial(amdahl, serial=1.0, work=9.0)}
    >>> compare(laws, table).terms["in_words"].to_dict()
    {'work': 'strong', 'serial': 'strong'}

    Source: the module's.
    """
    if len(models) < 2 or folds < 2:
        raise ValueError(f"{len(models)} models and folds={folds}; two of each are the least")
    fits = {name: fit(model, table, **options) for name, model in models.items()}
    cells = _cells(fits, table)
    count = int(cells.max()) + 1
    if count < 3:
        raise ValueError(
            f"{count} different cells cannot be held out in turn; measure three or more"
        )
    dealt = np.random.default_rng(seed).permutation(count) % min(folds, count)
    held_out = [dealt[cells] == part for part in range(min(folds, count))]
    found = {name: _held_out(each, held_out, cells) for name, each in fits.items()}
    scores = np.array([score for score, _ in found.values()])
    weights = weighed(scores, seed)
    best = int(np.argmax(scores.mean(axis=1)))
    behind = scores - scores[best]
    models_table = pd.DataFrame(
        {
            "parameters": [len(each.names) for each in fits.values()],
            "held_out_miss": [miss for _, miss in found.values()],
            "score": behind.mean(axis=1),
            "standard_error": behind.std(axis=1, ddof=1) / np.sqrt(count),
            "weight": weights,
        },
        index=pd.Index(list(fits), name="model"),
    ).sort_values("score", ascending=False, kind="stable")
    return Comparison(fits, models_table, _terms(fits, weights))


def weighed(scores: np.ndarray, seed: int = 0) -> np.ndarray:
    """The weight of each model.

    Args:
        scores: (models, cells), the log density that each model gave to each held-out cell.
        seed: of the Bayesian bootstrap over cells.
    """
    cells = scores.shape[1]
    drawn = np.random.default_rng(seed).dirichlet(np.ones(cells), _DRAWS)
    return special.softmax(cells * drawn @ scores.T, axis=1).mean(axis=0)


def _cells(fits: dict[str, Fit[Any]], table: pd.DataFrame) -> np.ndarray:
    """Numbers from 0 for the rows that no model tells apart."""
    columns = {name: np.asarray(v) for each in fits.values() for name, v in each.columns.items()}
    key = pd.DataFrame(columns).assign(op=table["op"].to_numpy())
    return key.groupby(list(key.columns), dropna=False, sort=False).ngroup().to_numpy()


def _held_out(
    found: Fit[Any], parts: list[np.ndarray], cells: np.ndarray
) -> tuple[np.ndarray, float]:
    """(cells,): the mean log density of each cell's rows when held out; and their mean miss."""
    copies = 1.0 - np.array(parts, float)
    problem = problem_of(found)
    measured = np.broadcast_to(problem.tables.measured, copies.shape)
    many = refit(found, Tables(measured, copies))
    density, miss = np.full(len(cells), _LOST), np.full(len(cells), np.inf)
    for place, out in enumerate(parts):
        if many.failure[place] is None:
            gone = problem.tables.measured[0] - many.predicted[place]
            scale = many.row_scale[place]
            density[out] = (stats.t.logpdf(gone / scale, _DEGREES) - np.log(scale))[out]
            miss[out] = np.abs(gone)[out]
    per_cell = np.bincount(cells, density) / np.bincount(cells)
    return np.maximum(per_cell, _LOST), float(np.mean(miss))


def _terms(fits: dict[str, Fit[Any]], weights: np.ndarray) -> pd.DataFrame:
    names = list(dict.fromkeys(name for each in fits.values() for name in each.names))
    support = [
        float(sum(w for each, w in zip(fits.values(), weights, strict=True) if name in each.names))
        for name in names
    ]
    words = [next(word for least, word in _VERDICTS if share >= least) for share in support]
    return pd.DataFrame(
        {"support": support, "in_words": words}, index=pd.Index(names, name="parameter")
    )

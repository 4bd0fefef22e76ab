"""Where the numbers of a fit are from: every one of them, the fitted and the others."""

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

import equinox as eqx
from jax.tree_util import (
    DictKey,
    GetAttrKey,
    SequenceKey,
    keystr,
    tree_flatten_with_path,
)

if TYPE_CHECKING:
    from scaleopt.fitting.result import Fit

Provenance = Literal["measured", "fitted", "datasheet", "assumed", "not told"]
"""Timed; fitted to what was timed; printed by a maker; held fixed; or fitted, and not told."""


def provenance(fit: "Fit[Any]") -> dict[str, Provenance]:
    """Where each number of a fit's model is from.

    Args:
        fit: of any model.

    Returns:
        By name: "fitted" to the rows; "not told" where the rows leave a free number open;
        "assumed" where it was held fixed, be it at a value given or at what leaves its term out.

    >>> import pandas as pd
    >>> from jax.tree_util import Partial
    >>> from scaleopt.fitting.fit import fit
    >>> table = pd.DataFrame({"op": "step", "devices": [1, 2, 4, 8], "time_s": [9, 5, 3, 2]})
    >>> def amdahl(devices, *, serial, work, hidden):
    ...     return serial + work / devices * (1 - hidden)
    >>> provenance(fit(Partial(amdahl, serial=1.0, work=8.0, hidden=0.0), table))
    {'serial': 'fitted', 'work': 'fitted', 'hidden': 'assumed'}
    """
    leaves = tree_flatten_with_path(fit.parameters.template)[0]
    found: dict[str, Provenance] = {}
    for place, name in enumerate(fit.names):
        told = not (fit.failure or fit.covariance.unseen[place])
        found[name] = "fitted" if told else "not told"
    for place, (path, leaf) in enumerate(leaves):
        if place not in fit.parameters.free and eqx.is_array_like(leaf):
            named = tuple(it for it in path if isinstance(it, GetAttrKey | DictKey | SequenceKey))
            found[keystr(named, simple=True, separator=".")] = "assumed"
    return found


def rows_of(fit: "Fit[Any]") -> str:
    """What a fit was fitted to, in words.

    >>> import pandas as pd
    >>> from scaleopt.fitting.calibrate import calibrate
    >>> rows = [(2, 1e3, 1e-5), (2, 1e9, 1e-2), (4, 1e3, 3e-5), (4, 1e9, 2e-2)]
    >>> table = pd.DataFrame(rows, columns=["devices", "size_bytes", "time_s"])
    >>> rows_of(calibrate(table.assign(op="all_reduce")))
    '4 all_reduce rows on 2 and 4 devices'
    """
    counts = Counter(fit.rows["op"]) if "op" in fit.rows else {"": len(fit.rows)}
    kinds = _joined([f"{count} {op}".rstrip() for op, count in counts.items()])
    said = f"{kinds} row{'' if len(fit.rows) == 1 else 's'}"
    if "devices" in fit.rows:
        said += f" on {_joined([f'{it:g}' for it in sorted(set(fit.rows['devices']))])} devices"
    return said


def _joined(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))

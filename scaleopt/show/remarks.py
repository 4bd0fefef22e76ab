"""What to know before believing the numbers: for people and, in the same words, for programs."""

from typing import Any

import pandas as pd

from scaleopt.data.steadiness import unsteady
from scaleopt.fitting.result import Fit
from scaleopt.planning.devices.choice import DeviceChoice

_BUSY_CORES, _BUSY_SHARE = 0.2, 0.1
_NOISY = 0.15
_GROSS = 0.5
_CREDIBLE_EFFICIENCY = (0.3, 1.5)


def remarks(
    fit: Fit[Any], choice: DeviceChoice | None, context: dict[str, Any]
) -> dict[str, list[str]]:
    """Sentences under three titles: what could not be told, what to mind, what was assumed.

    Args:
        fit: from `calibrate`.
        choice: what was decided, where there was a workload to decide for.
        context: of the table that was fitted.

    Returns:
        The sentences by title; a title without any has an empty list. What speaks against the
        choice itself is apart, in `contradicted`.
    """
    careful = [] if choice is None else _about_choice(choice)
    return {
        "What could not be told:": list(fit.unidentified),
        "What to be careful about:": careful + _about_rows(fit, context) + _about_noise(fit),
        "What was assumed:": list(fit.notes),
    }


def any_row(rows: pd.DataFrame, flag: str) -> bool:
    """Whether a flag is set in any row."""
    return flag in rows and bool(rows[flag].astype(bool).any())


def contradicted(choice: DeviceChoice | None) -> list[str]:
    """That the measurements speak against the best number, to stand before it."""
    if choice is None or choice.contradiction is None:
        return []
    return [
        f"MEASURED OTHERWISE: this step was fastest on {choice.contradiction}, not on "
        f"{int(choice.best.value)} devices; trust the measurements, not the model"
    ]


def _about_choice(choice: DeviceChoice) -> list[str]:
    said = []
    if choice.optimal.value > choice.measured_devices and not choice.open:
        said.append(
            f"N* lies beyond the {choice.measured_devices} measured: it trusts the model's form, "
            "and its range does not say how far that holds"
        )
    return said


def _about_rows(fit: Fit[Any], context: dict[str, Any]) -> list[str]:
    said = []
    if any_row(fit.rows, "oversubscribed"):
        cores = context.get("physical_cores", "fewer")
        said.append(
            f"oversubscribed: more CPU devices than the {cores} physical cores; the model knows "
            "nothing of cores, so believe no gain beyond them"
        )
    said += [f"joined though not alike: {what}" for what in context.get("joined_across", [])]
    if "foreign_load" in fit.rows:
        busy = float((fit.rows["foreign_load"] > _BUSY_CORES).mean())
        if busy > _BUSY_SHARE:
            said.append(
                f"the machine was busy: in {100 * busy:.0f} % of the rows others used more than "
                f"{_BUSY_CORES} cores; measure again in quiet"
            )
    if "run" in fit.rows and len(set(fit.rows["run"].dropna())) == 1:
        said.append(
            "all rows are of one start of the measuring processes: how much starts differ is not "
            "in the intervals; measure without --quick, or join tables"
        )
    said += unsteady(fit.rows)
    low, high = _CREDIBLE_EFFICIENCY
    if "compute_efficiency" in fit.names:
        efficiency = float(fit.model.compute_efficiency)
        if not low < efficiency < high:
            said.append(
                f"steps reach {efficiency:.2g} of the matmul rate: if that is not so, the flops of "
                "one kind of row are in another unit than FLOP"
            )
    return said


def _about_noise(fit: Fit[Any]) -> list[str]:
    said = []
    for kind in fit.noise:
        if kind.misfit > _GROSS:
            said.append(
                f"{kind.name}: the model misses by {100 * kind.misfit:.0f} %: it is not of this "
                "form, or a column is in another unit than SI"
            )
        elif kind.misfit > 0:
            said.append(
                f"{kind.name}: the model misses by {100 * kind.misfit:.0f} % beyond the noise; "
                "the intervals allow for it"
            )
        for what, shift in (("rounds", kind.round_shift), ("runs", kind.run_shift)):
            if shift > 0:
                said.append(
                    f"{kind.name}: whole {what} shift by {100 * shift:.0f} %; "
                    "the intervals allow for it"
                )
        if kind.repeat_noise > _NOISY and kind.scattered:
            said.append(f"{kind.name}: {kind.scattered}")
        if kind.outliers:
            said.append(
                f"{kind.name}: {kind.outliers} of {kind.rows} rows lie too far out to have a say"
            )
    return said

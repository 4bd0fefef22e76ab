"""A time estimator for SkyPilot's optimizer: resources in, whole seconds out.

Source: skypilot-org/skypilot, sky/task.py, set_time_estimator.
"""

from scaleopt.show.export.constants import Constants, Export, compute_rate

_FUNCTION = '''
STEPS, FLOPS, SIZE = 1, 1e15, 1e9  # of your run: steps, FLOP a step, bytes of gradients


def estimate_runtime(resources):
    """Seconds of the run on the accelerators of these resources; task.set_time_estimator(this)."""
    devices = sum((resources.accelerators or {{}}).values())
    if devices < 1:
        raise ValueError("these resources have no accelerators")
    reduce = 2 * (devices - 1) * {alpha!r} + 2 * (devices - 1) / devices * {beta!r} * SIZE
    return round(STEPS * ({fixed!r} + FLOPS / (devices * {rate!r}) + reduce))
'''


def skypilot(found: Constants) -> Export:
    """A Python module with one function.

    Raises:
        ValueError: the rows do not tell the rate, without which there is no time.
    """
    rate, model = compute_rate(found), found.model
    if rate is None:
        raise ValueError("the rate is not told by these rows; time steps or matmuls, then export")
    fixed = [name for name in ("serial_time", "launch") if found.told(name)]
    body = _FUNCTION.format(
        alpha=float(model.alpha),
        beta=float(model.beta),
        rate=float(rate),
        fixed=float(sum(getattr(model, name) for name in fixed)),
    )
    unsaid = [
        "num_nodes and the kind of accelerator: SkyPilot shows the function neither, and it "
        f"holds for the devices that were measured, up to {found.devices} of them",
        "the intervals: SkyPilot takes one number of whole seconds",
    ]
    unsaid += [
        f"{name}: these rows do not tell it, and 0 is taken"
        for name in ("serial_time", "launch")
        if found.named[name].provenance == "not told"
    ]
    head = found.comments(tuple(unsaid), *found.named)
    return Export("\n".join(head) + "\n" + body, tuple(unsaid))

"""A time estimator for SkyPilot's optimizer: resources in, seconds out.

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
    return STEPS * ({fixed!r} + FLOPS / (devices * {rate!r}) + reduce)
'''


def skypilot(found: Constants) -> Export:
    """A Python module with one function.

    Raises:
        ValueError: the rows do not tell the rate, without which there is no time.
    """
    rate, model = compute_rate(found), found.model
    if rate is None:
        raise ValueError("the rate is not told by these rows; time steps or matmuls, then export")
    body = _FUNCTION.format(
        alpha=float(model.alpha),
        beta=float(model.beta),
        rate=float(rate),
        fixed=float(model.serial_time + model.launch),
    )
    unsaid = ("of one node and one kind of device: num_nodes and the accelerator are not seen",)
    said = [*found.comments(*found.named), *(f"not expressed: {it}" for it in unsaid)]
    return Export("\n".join(f"# {it}" for it in said) + "\n" + body, unsaid)

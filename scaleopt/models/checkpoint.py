"""What interruptions cost a run that writes checkpoints, and how often it should write them.

N devices that each fail, or are taken away, at a rate λ₁ stop the run at a rate λ = N λ₁. Each time
the work since the last checkpoint is lost and a restart is paid. The more often checkpoints are
written the less is lost, and the more time goes into writing.

Source: J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps",
Future Generation Computer Systems 22, 2006; J. W. Young, Comm. ACM 17, 1974.
"""

import jax.numpy as jnp
from jax import Array

from scaleopt.units import PerSecond, Seconds, real


def checkpoint_interval(checkpoint: Seconds, failure_rate: PerSecond) -> Array:
    """Seconds of work between checkpoints that make the run shortest.

    τ = sqrt(2δ/λ) (1 + sqrt(δλ/2)/3 + (δλ/2)/9) − δ for δ < 2/λ, and 1/λ beyond: Young's square
    root with Daly's corrections.

    Args:
        checkpoint: δ [s] to write a checkpoint.
        failure_rate: λ [1/s] of the whole run.

    Returns:
        τ [s]; infinite without failures.

    >>> f"{float(checkpoint_interval(60.0, 1 / 86400)):.0f} s"
    '3180 s'

    Source: as the module, equation 37 of Daly.
    """
    checkpoint, rate = real(checkpoint, failure_rate)
    fails = rate > 0
    safe = jnp.where(fails, rate, 1.0)  # else 0/0 where checkpoints cost nothing either
    half = checkpoint * safe / 2
    root = jnp.sqrt(2 * checkpoint / safe) * (1 + jnp.sqrt(half) / 3 + half / 9) - checkpoint
    return jnp.where(fails, jnp.where(half < 1, root, 1 / safe), jnp.inf)


def interrupted_time(
    time: Seconds,
    interval: Seconds,
    checkpoint: Seconds,
    restart: Seconds,
    failure_rate: PerSecond,
) -> Array:
    """Expected seconds of a run with its interruptions.

    T = T₀/τ · e^{λR} (e^{λ(τ + δ)} − 1)/λ, which is T₀ (τ + δ)/τ without failures: between
    interruptions at random every piece of work and checkpoint is tried until it is done.

    Args:
        time: T₀ [s] that the work takes.
        interval: τ [s] of work between checkpoints.
        checkpoint: δ [s] to write one.
        restart: R [s] until the work goes on after an interruption.
        failure_rate: λ [1/s] of the whole run.

    Returns:
        T [s].

    >>> round(float(interrupted_time(1000.0, 100.0, 1.0, 10.0, 1e-4)), 1)
    1016.1

    Source: as the module, equation 20 of Daly.
    """
    time, interval, checkpoint, restart, rate = real(
        time, interval, checkpoint, restart, failure_rate
    )
    piece = interval + checkpoint
    fails = rate > 0
    safe = jnp.where(fails, rate, 1.0)
    tried = jnp.exp(safe * restart) * jnp.expm1(safe * piece) / safe
    endless = jnp.isinf(interval)  # one piece, and nothing written
    share = jnp.where(
        endless, 1.0, jnp.where(fails, tried, piece) / jnp.where(endless, 1, interval)
    )
    return time * share

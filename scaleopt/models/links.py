"""Links that are more than one line: levels of nodes, protocols by size, compressed arrays."""

import jax.numpy as jnp

from scaleopt.units import Bytes, Count, Ratio, Seconds, SecondsPerByte, real


def hierarchical_all_reduce_time(
    size: Bytes,
    devices: Count,
    alpha: Seconds,
    beta: SecondsPerByte,
    *,
    launch: Seconds = 0.0,
) -> Seconds:
    """Seconds of an all-reduce that goes level by level: inside a node, across nodes, further out.

    T = launch + Σ over levels l of  2(N_l − 1)(α_l + β_l M_l / N_l),   M_l = M / (N_1 ⋯ N_(l−1))

    Each level but the last reduce-scatters on the way out and all-gathers on the way back, the last
    all-reduces; every step is a ring. What crosses a level is smaller by all the levels inside it.

    Args:
        size: M [B], bytes of the array on each device.
        devices: (…, levels), N_l, how many parts join at each level, innermost first.
        alpha: (…, levels) [s], time of an empty message at each level.
        beta: (…, levels) [s/B], inverse of the bandwidth of one device at each level.
        launch: [s], fixed cost of the operation.

    Returns:
        T (…) [s].

    >>> devices, alpha = jnp.array([8.0, 4.0]), jnp.array([2e-6, 2e-5])
    >>> time = hierarchical_all_reduce_time(1e9, devices, alpha, jnp.array([3e-12, 2e-11]))
    >>> round(float(time) * 1e3, 3)
    9.148

    Source: P. Sanders and J. F. Sibeyn, "A bandwidth latency tradeoff for broadcast and reduction",
    Information Processing Letters 86, 2003; NCCL's and Horovod's hierarchical all-reduce.
    """
    size, devices, alpha, beta, launch = real(size, devices, alpha, beta, launch)
    devices, alpha, beta = jnp.broadcast_arrays(*map(jnp.atleast_1d, (devices, alpha, beta)))
    share = size[..., None] / jnp.cumprod(devices, axis=-1)
    return launch + jnp.sum(2 * (devices - 1) * (alpha + beta * share), axis=-1)


def envelope_time(times: Seconds, sharpness: Ratio = 8.0) -> Seconds:
    """The lower envelope of several protocols, rounded where one takes over from another.

    T = (Σ T_i^−s)^(−1/s)

    A library picks the faster protocol by size; near the change its choice is not perfect. With k
    protocols T is at most k^(1/s) times faster than the fastest of them.

    Args:
        times: (…, protocols) [s], the time by each.
        sharpness: s, above 0; the minimum as s → ∞.

    Returns:
        T (…) [s].

    >>> round(float(envelope_time(jnp.array([1.0, 2.0]))), 4)
    0.9995

    Source: the p-norm; protocols as in NCCL's LL, LL128 and Simple.
    """
    times, sharpness = real(times, sharpness)
    times = jnp.atleast_1d(times)
    least = jnp.min(times, axis=-1, keepdims=True)
    # Relative to the least no power overflows; a time of 0 is its own envelope.
    relative = jnp.where(least > 0, least / jnp.where(times > 0, times, 1.0), 1.0)
    shrink = jnp.sum(relative**sharpness, axis=-1) ** (-1 / sharpness)
    return least[..., 0] * shrink


def compressed_beta(
    beta: SecondsPerByte, compression: Ratio, coding: SecondsPerByte = 0.0
) -> SecondsPerByte:
    """The β of an array that is compressed before every hop and restored behind it.

    β' = β / c + γ

    It pays where γ < β (1 − 1/c). Every formula that takes a β takes this one.

    Args:
        beta: β [s/B], inverse of the bandwidth of one device in one direction.
        compression: c, bytes of the array over bytes sent.
        coding: γ [s/B], seconds to compress and restore a byte of the array.

    Returns:
        β' [s/B].

    >>> f"{compressed_beta(4e-11, 4.0, 5e-12):.3g}"
    '1.5e-11'

    Source: the definition; S. Agarwal et al., "On the utility of gradient compression in
    distributed training systems", MLSys 2022, for when it pays.
    """
    beta, compression, coding = real(beta, compression, coding)
    return beta / compression + coding

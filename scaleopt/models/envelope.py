"""A link as a library uses it: several protocols, and a growth with N that is fitted, not assumed.

The textbook line assumes one protocol and counts its messages. A library picks among several by
size, and each takes a schedule between a ring, whose messages grow as N, and a tree, whose messages
grow as log N. So every protocol has an α, a β and a fixed cost of its own, and two ratios by which
its messages and its bytes grow where the devices double.
"""

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from scaleopt.models.links import envelope_time
from scaleopt.units import Bytes, Count, Ratio, Scalar, Seconds, SecondsPerByte, real


class LinkEnvelope(eqx.Module):
    """Seconds of a collective by the best of several protocols.

    T = launch + (Σ_i T_i^−s)^(−1/s)

    T_i = t_i + (A_i^q + B_i^q)^(1/q)

    A_i = p [2 f(L) a^log₂(L/2) α + 2 f(n) a'^log₂(n/2) α'],   f(N) = (N − 1)/N,

    B_i = p [g(L; b, c) β + g(n; b', c') β'] M,   g(N; b, c) = f(N) b^log₂(N/2) c^(1 − (2/N)²),

    with L = N / n devices in each of n nodes. With all other ratios 1 and a = 2 it is the ring,
    p (N − 1) α + p ((N − 1)/N) β M. Where a < 2 it is on the way to a tree; c says that two devices
    are a pair, whose way to one another differs from that around a ring; b > 1 that bandwidth goes
    on to fall as devices are added; q > 1 that bytes hide behind the messages of other segments, so
    that the later of both counts. α and β are those of two devices.

    >>> link = LinkEnvelope(launch=5e-6, alpha=1e-6, beta=1e-11)
    >>> f"{link(devices=8, size=1e6):.3g}"
    '3.65e-05'

    Source: R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19(1), 2005, for the counts that it lies
    between; protocols as in NCCL's LL, LL128 and Simple, each of which its src/graph/tuning.cc
    charges a latency that is the same for every N, beside that of its messages.
    """

    launch: Seconds
    """Fixed cost of the operation."""
    alpha: Seconds
    """(protocols,), α, time of an empty message between two devices."""
    beta: SecondsPerByte
    """(protocols,), β, inverse of the bandwidth of one device in one direction, of two devices."""
    alpha_growth: Ratio = 2.0
    """(protocols,), a, by how much the messages grow where the devices double: 2 in a ring."""
    beta_growth: Ratio = 1.0
    """(protocols,), b, by how much β grows where the devices double: 1 in a ring."""
    crowding: Ratio = 1.0
    """(protocols,), c, β of a ring of many over that of a pair."""
    node_alpha: Seconds = 0.0
    """(protocols,), α' of a message between nodes."""
    node_beta: SecondsPerByte = 0.0
    """(protocols,), β' between nodes, for each byte of the array."""
    node_alpha_growth: Ratio = 2.0
    """(protocols,), a' where the nodes double."""
    node_beta_growth: Ratio = 1.0
    """(protocols,), b' where the nodes double."""
    node_crowding: Ratio = 1.0
    """(protocols,), c' of many nodes over that of two."""
    sharpness: Ratio = 8.0
    """s, how cleanly the faster protocol is picked."""
    overlap: Ratio = 1.0
    """q, 1 where messages and bytes take turns; large where they go on at the same time."""
    start: Seconds = 0.0
    """(protocols,), t, what a protocol costs besides, whatever N and M."""

    def __call__(
        self, devices: Count, size: Bytes, passes: Ratio = 2.0, nodes: Count = 1.0
    ) -> Seconds:
        """The seconds of one collective.

        Args:
            devices: N, number of devices; at 1 the launch and the envelope of the starts remain.
            size: M [B], bytes of the full array, in an all-to-all of one device's part.
            passes: p, how often the array goes around: 2 in an all-reduce, else 1.
            nodes: n, over how many nodes the devices are spread evenly.
        """
        return self.launch + envelope_time(
            self.protocol_times(devices, size, passes, nodes), self.sharpness
        )

    def protocol_times(
        self, devices: Scalar, size: Scalar, passes: Scalar = 2.0, nodes: Scalar = 1.0
    ) -> Array:
        """(…, protocols) [s], the time by each protocol, without the launch."""
        devices, size, passes, nodes = real(devices, size, passes, nodes)
        inside, across = jnp.maximum(devices / nodes, 1.0), nodes
        messages = 2 * (
            _grown(inside, self.alpha, self.alpha_growth)
            + _grown(across, self.node_alpha, self.node_alpha_growth)
        )
        sending = size[..., None] * (
            _grown(inside, self.beta, self.beta_growth, self.crowding)
            + _grown(across, self.node_beta, self.node_beta_growth, self.node_crowding)
        )
        (start,) = real(self.start)
        return start + passes[..., None] * _overlapped(messages, sending, self.overlap)


def _grown(parts: Array, of_two: Scalar, growth: Scalar, crowding: Scalar = 1.0) -> Array:
    """(…, protocols): (N − 1)/N b^log₂(N/2) c^(1 − (2/N)²) β of one level."""
    parts = parts[..., None]
    of_two, growth, crowding = (jnp.atleast_1d(each) for each in real(of_two, growth, crowding))
    more = growth ** jnp.log2(parts / 2) * crowding ** (1 - (2 / parts) ** 2)
    return (parts - 1) / parts * more * of_two


def _overlapped(first: Array, second: Array, overlap: Scalar) -> Array:
    """(x^q + y^q)^(1/q), of times that go on partly at once."""
    later, sooner = jnp.maximum(first, second), jnp.minimum(first, second)
    # Relative to the later no power overflows. A time of 0 adds nothing, and no power sees it:
    # the slope of 0^q at q < 1 is infinite.
    both = sooner > 0
    share = jnp.where(both, sooner / jnp.where(both, later, 1.0), 1.0)
    grown = (1 + share**overlap) ** (1 / jnp.asarray(overlap, float))
    return later * jnp.where(both, grown, 1.0)

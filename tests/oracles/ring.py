"""A ring all-reduce simulated message by message, sharing no code with the formulas.

Each device has one port out; a message of n bytes keeps it busy for alpha + beta * n and arrives
when it has left. In round k a device sends on the chunk that it received in round k - 1.
"""

from fractions import Fraction


def all_reduce_seconds(size, devices, alpha, beta):
    """Seconds until the last chunk has arrived, in exact arithmetic; checks who holds what."""
    if devices == 1:
        return Fraction(0)
    message = Fraction(alpha) + Fraction(beta) * Fraction(size) / devices
    port_free = [Fraction(0)] * devices
    arrived = [Fraction(0)] * devices
    held = [[{device} for _ in range(devices)] for device in range(devices)]
    for round_ in range(2 * (devices - 1)):
        sent = []
        for device in range(devices):
            chunk = (device - round_) % devices
            start = max(port_free[device], arrived[device])
            sent.append((device, chunk, start + message, set(held[device][chunk])))
            port_free[device] = start + message
        for device, chunk, moment, contributions in sent:
            neighbour = (device + 1) % devices
            held[neighbour][chunk] |= contributions
            arrived[neighbour] = moment
    complete = set(range(devices))
    assert all(chunk == complete for chunks in held for chunk in chunks)
    return max(arrived)

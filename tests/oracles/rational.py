"""The laws of speed-up in exact rational arithmetic, from one run split into times and not into
fractions: `serial` seconds that stay and `parallel` seconds on one device that divide."""

from fractions import Fraction


def split(parallel_fraction):
    """A run of one second on one device."""
    return 1 - Fraction(parallel_fraction), Fraction(parallel_fraction)


def amdahl(devices, parallel_fraction):
    serial, parallel = split(parallel_fraction)
    return (serial + parallel) / (serial + parallel / devices)


def gustafson(devices, parallel_fraction):
    """The second is that of N devices; one device takes N times as long for its parallel part."""
    serial, parallel = split(parallel_fraction)
    return (serial + parallel * devices) / (serial + parallel)


def sun_ni(devices, parallel_fraction, growth):
    serial, parallel = split(parallel_fraction)
    return (serial + growth * parallel) / (serial + growth * parallel / devices)


def gustafson_fraction(devices, parallel_fraction):
    serial, parallel = split(parallel_fraction)
    return (parallel / devices) / (serial + parallel / devices)


def amdahl_fraction(devices, parallel_fraction):
    serial, parallel = split(parallel_fraction)
    return parallel * devices / (serial + parallel * devices)


def karp_flatt(devices, parallel_fraction):
    """Of the speed-up that Amdahl's law gives, so that the serial fraction must come back."""
    return 1 - Fraction(parallel_fraction)


def usl(devices, rate, contention, coherency):
    """Each device waits for the one in the queue, and settles with each of the others."""
    pairs = Fraction(devices * (devices - 1), 2)
    waits = contention * (devices - 1) + 2 * coherency * pairs
    return Fraction(rate) * devices / (1 + waits)

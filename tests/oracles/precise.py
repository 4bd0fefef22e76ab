"""Every formula once more, in fifty digits, written from its source and not from our code."""

import mpmath as mp

mp.mp.dps = 50


def _log2_floor(n):
    return mp.floor(mp.log(n, 2) + mp.mpf(10) ** -30)


def _log2_ceil(n):
    return mp.ceil(mp.log(n, 2) - mp.mpf(10) ** -30)


def amdahl(n, p):
    return 1 / (1 - p + p / n)


def gustafson(n, p):
    return n - (1 - p) * (n - 1)


def sun_ni(n, p, g):
    return (1 - p + p * g) / (1 - p + p * g / n)


def karp_flatt(s, n):
    return (n / s - 1) / (n - 1)


def to_gustafson(n, p):
    return p / (n * (1 - p) + p)


def to_amdahl(n, p):
    return n * p / (1 - p + n * p)


def isoefficiency(e, n, overhead, rate):
    return e / (1 - e) * rate * n * overhead


def usl(n, rate, sigma, kappa):
    return rate * n / (1 + (n - 1) * (sigma + kappa * n))


def usl_peak(sigma, kappa):
    return max(mp.mpf(1), mp.sqrt((1 - sigma) / kappa))


def smooth(intensity, peak, bandwidth, s):
    return (peak**-s + (intensity * bandwidth) ** -s) ** (-1 / s)


def ring_all_reduce(m, n, a, b):
    return (2 * n - 2) * a + (2 - 2 / n) * b * m


def ring_pass(m, n, a, b):
    return (n - 1) * a + (1 - 1 / n) * b * m


def pairwise(m, n, a, b):
    return (n - 1) * (a + b * m / n**2)


def tree(m, n, a, b):
    return _log2_ceil(n) * (a + b * m)


def normal_quantile(share):
    return mp.sqrt(2) * mp.erfinv(2 * share - 1)


def slowest(t, sigma, n):
    """From Φ⁻¹ of the share that lies below, where ours takes the share above."""
    log, tail = mp.log(n), mp.exp(-mp.euler) - mp.mpf(1) / 2
    bend = mp.mpf("12.69") - mp.mpf("1.56") * log + mp.mpf("0.85") * log**2
    above = (mp.mpf(1) / 2 + (1 - 1 / n) * (tail + 1 / bend)) / n
    return t + sigma * t * normal_quantile(1 - above)


def step(rate, a, b, serial, launch, reached, overlap, k, uneven, sigma, n, w, m):
    """The step, its compute as FLOP of the busiest device over its rate."""
    mean = w / n / (rate * reached)
    busiest = mean + uneven * mean if n > 1 else mean
    exposed = ring_all_reduce(m, n, a, b) - overlap * mean / k
    return serial + launch + slowest(busiest, sigma, n) + max(exposed, mp.mpf(0))


PRECISE = {
    "StepTime": step,
    "amdahl_speedup": amdahl,
    "amdahl_limit": lambda p: 1 / (1 - p),
    "gustafson_speedup": gustafson,
    "sun_ni_speedup": sun_ni,
    "efficiency": lambda s, n: s / n,
    "karp_flatt": karp_flatt,
    "gustafson_fraction": to_gustafson,
    "amdahl_fraction": to_amdahl,
    "isoefficiency_flops": isoefficiency,
    "usl_throughput": usl,
    "usl_peak_devices": usl_peak,
    "usl_peak_throughput": lambda rate, s, k: usl(usl_peak(s, k), rate, s, k),
    "arithmetic_intensity": lambda w, q: w / q,
    "attainable_rate": lambda i, peak, b: min(peak, i * b),
    "ridge_point": lambda peak, b: peak / b,
    "hierarchical_rate": lambda peak, i, b: min(peak, i * b),
    "smooth_rate": smooth,
    "bytes_in_flight": lambda latency, b: latency * b,
    "requests_in_flight": lambda latency, b, request: latency * b / request,
    "bandwidth_share": lambda f, latency, b: min(mp.mpf(1), f / (latency * b)),
    "occupancy": lambda each, all_, most: min(mp.mpf(1), all_ / (each * most)),
    "load_imbalance": lambda k, n: mp.ceil(k / n) * n / k - 1,
    "slowest_time": slowest,
    "elementwise_intensity": lambda i, o, w, item: w / (item * (i + o)),
    "saxpy_intensity": lambda item: 2 / (3 * item),
    "gemm_flops": lambda m, k, n: 2 * m * k * n,
    "gemm_bytes": lambda m, k, n, item: item * (m * k + k * n + m * n),
    "gemm_intensity": lambda m, k, n, item: 2 * m * k * n / (item * (m * k + k * n + m * n)),
    "gemv_intensity": lambda m, n, item: 2 * m * n / (item * (m * n + m + n)),
    "decode_intensity": lambda b, p, item, cache: 2 * p * b / (p * item + b * cache),
    "prefill_intensity": lambda t, item: 2 * t / item,
    "model_flops_utilization": lambda w, t, n, peak: w / (t * n * peak),
    "hardware_flops_utilization": lambda w, again, t, n, peak: (w + again) / (t * n * peak),
    "run_cost": lambda price, n, t: price * n * t,
    "million_tokens_cost": lambda price, n, rate: price * n / rate * 10**6,
    "all_reduce_time": lambda m, n, a, b, launch: launch + ring_all_reduce(m, n, a, b),
    "all_gather_time": lambda m, n, a, b, launch: launch + ring_pass(m, n, a, b),
    "reduce_scatter_time": lambda m, n, a, b, launch: launch + ring_pass(m, n, a, b),
    "all_to_all_time": lambda m, n, a, b, launch: launch + pairwise(m, n, a, b),
    "broadcast_time": lambda m, n, a, b, launch: launch + tree(m, n, a, b),
    "reduce_time": lambda m, n, a, b, launch: launch + tree(m, n, a, b),
    "permute_time": lambda m, n, a, b, launch: launch + min(n - 1, mp.mpf(1)) * (a + b * m / n),
    "compressed_beta": lambda b, c, coding: (b + coding * c) / c,
    "send_time": lambda m, a, b, launch: launch + a + b * m,
    "hierarchical_all_reduce_time": lambda m, n, a, b, launch: launch + ring_all_reduce(m, n, a, b),
    "envelope_time": lambda t, s: t,
    "algorithm_bandwidth": lambda m, t: m / t,
    "bus_bandwidth": lambda m, t, n: (2 - 2 / n) * m / t,
    "bus_time": lambda m, b, n: (2 - 2 / n) * m / b,
    "halo_time": lambda cells, n, s, a, b, w: 6 * (a + b * w * s * (cells / n) ** (mp.mpf(2) / 3)),
    "summa_time": lambda left, right, r, c, a, b, q: (
        q * (c + r - 2) * a + b * ((c - 1) / c * left / r + (r - 1) / r * right / c)
    ),
}

"""Collectives simulated message by message, sharing no code with the formulas.

Each device has one port out and one port in; a message of n bytes keeps both for alpha + beta * n,
and may leave once what it carries is there. Every simulation also keeps account of who holds which
part of the data, so that an algorithm that is fast because it is wrong is found out.
"""


class Network:
    """Devices with ports, and what each of them holds since when."""

    def __init__(self, devices, alpha, beta):
        self.devices = devices
        self.alpha, self.beta = alpha, beta
        self.out_free = [0.0] * devices
        self.in_free = [0.0] * devices
        self.held = [{} for _ in range(devices)]
        self.ready = [{} for _ in range(devices)]

    def put(self, device, block, contributions):
        """What a device has from the beginning."""
        self.held[device][block] = frozenset(contributions)
        self.ready[device][block] = 0.0

    def round(self, messages, size_of):
        """Send (source, target, blocks) all at once; a target adds what it gets to what it has."""
        arrivals = []
        for source, target, blocks in messages:
            carried = {block: self.held[source][block] for block in blocks}
            start = max(
                [self.out_free[source], self.in_free[target]]
                + [self.ready[source][block] for block in blocks]
            )
            bytes_ = len(blocks) * size_of(blocks[0]) if blocks else 0.0
            end = start + self.alpha + self.beta * bytes_
            self.out_free[source] = self.in_free[target] = end
            arrivals.append((target, carried, end))
        for target, carried, end in arrivals:
            for block, contributions in carried.items():
                self.held[target][block] = self.held[target].get(block, frozenset()) | contributions
                self.ready[target][block] = max(self.ready[target].get(block, 0.0), end)

    def end(self):
        """When the last message has arrived."""
        return max(self.in_free)


def _power_below(devices):
    return 1 << (devices.bit_length() - 1)


def _reducing(devices, alpha, beta):
    """Every device holds its own contribution to each of N blocks of the array."""
    net = Network(devices, alpha, beta)
    for device in range(devices):
        for block in range(devices):
            net.put(device, block, {device})
    return net


def _finish_all_reduce(net):
    everyone = frozenset(range(net.devices))
    for held in net.held:
        assert all(contributions == everyone for contributions in held.values())
    return net.end()


def ring_all_reduce(size, devices, alpha, beta):
    net = _reducing(devices, alpha, beta)
    for step in range(2 * (devices - 1)):
        messages = [(d, (d + 1) % devices, [(d - step) % devices]) for d in range(devices)]
        net.round(messages if devices > 1 else [], lambda _: size / devices)
    return _finish_all_reduce(net)


def _folded(size, devices, alpha, beta, inner):
    """Run an algorithm for powers of two, the rest folded in before and served after."""
    net, power = Network(devices, alpha, beta), _power_below(devices)
    for device in range(devices):
        for block in range(power):
            net.put(device, block, {device})
    whole = list(range(power))

    def size_of(_):
        return size / power

    net.round([(d, d - power, whole) for d in range(power, devices)], size_of)
    inner(net, power, size_of)
    net.round([(d - power, d, whole) for d in range(power, devices)], size_of)
    return _finish_all_reduce(net)


def recursive_doubling_all_reduce(size, devices, alpha, beta):
    def inner(net, power, size_of):
        distance = 1
        while distance < power:
            net.round([(d, d ^ distance, list(range(power))) for d in range(power)], size_of)
            distance *= 2

    return _folded(size, devices, alpha, beta, inner)


def rabenseifner_all_reduce(size, devices, alpha, beta):
    def inner(net, power, size_of):
        mine = [list(range(power)) for _ in range(power)]
        distance, path = power // 2, []
        while distance >= 1:
            messages = []
            for d in range(power):
                partner = d ^ distance
                theirs = [block for block in mine[d] if (block & distance) == (partner & distance)]
                messages.append((d, partner, theirs))
            net.round(messages, size_of)
            mine = [[b for b in mine[d] if (b & distance) == (d & distance)] for d in range(power)]
            path.append(distance)
            distance //= 2
        for distance in reversed(path):
            net.round([(d, d ^ distance, mine[d]) for d in range(power)], size_of)
            mine = [sorted(set(mine[d]) | set(mine[d ^ distance])) for d in range(power)]

    return _folded(size, devices, alpha, beta, inner)


def _binomial_reduce(net, size_of, blocks):
    distance = 1
    while distance < net.devices:
        pairs = range(distance, net.devices, 2 * distance)
        net.round([(d, d - distance, blocks) for d in pairs], size_of)
        distance *= 2


def _binomial_broadcast(net, size_of, blocks):
    distance = 1
    while distance < net.devices:
        distance *= 2
    distance //= 2
    while distance >= 1:
        pairs = range(0, net.devices - distance, 2 * distance)
        net.round([(d, d + distance, blocks) for d in pairs], size_of)
        distance //= 2


def binomial_tree_all_reduce(size, devices, alpha, beta):
    net = Network(devices, alpha, beta)
    for device in range(devices):
        net.put(device, 0, {device})
    _binomial_reduce(net, lambda _: size, [0])
    _binomial_broadcast(net, lambda _: size, [0])
    return _finish_all_reduce(net)


def binomial_tree_reduce(size, devices, alpha, beta):
    net = Network(devices, alpha, beta)
    for device in range(devices):
        net.put(device, 0, {device})
    _binomial_reduce(net, lambda _: size, [0])
    assert net.held[0][0] == frozenset(range(devices))
    return net.end()


def binomial_tree_broadcast(size, devices, alpha, beta):
    net = Network(devices, alpha, beta)
    net.put(0, 0, {0})
    _binomial_broadcast(net, lambda _: size, [0])
    assert all(held == {0: frozenset({0})} for held in net.held)
    return net.end()


def _gathering(devices, alpha, beta):
    net = Network(devices, alpha, beta)
    for device in range(devices):
        net.put(device, device, {device})
    return net


def _finish_all_gather(net):
    assert all(set(held) == set(range(net.devices)) for held in net.held)
    return net.end()


def ring_all_gather(size, devices, alpha, beta):
    net = _gathering(devices, alpha, beta)
    for step in range(devices - 1):
        messages = [(d, (d + 1) % devices, [(d - step) % devices]) for d in range(devices)]
        net.round(messages, lambda _: size / devices)
    return _finish_all_gather(net)


def bruck_all_gather(size, devices, alpha, beta):
    net, have = _gathering(devices, alpha, beta), 1
    while have < devices:
        count = min(have, devices - have)
        messages = [
            (d, (d - have) % devices, [(d + k) % devices for k in range(count)])
            for d in range(devices)
        ]
        net.round(messages, lambda _: size / devices)
        have += count
    return _finish_all_gather(net)


def ring_reduce_scatter(size, devices, alpha, beta):
    net = _reducing(devices, alpha, beta)
    for step in range(devices - 1):
        messages = [(d, (d + 1) % devices, [(d - step) % devices]) for d in range(devices)]
        net.round(messages, lambda _: size / devices)
    everyone = frozenset(range(devices))
    assert all(net.held[d][(d + 1) % devices] == everyone for d in range(devices))
    return net.end()


def _exchanging(devices, alpha, beta):
    """Block (source, target) is what source has for target."""
    net = Network(devices, alpha, beta)
    for source in range(devices):
        for target in range(devices):
            net.put(source, (source, target), {source})
    return net


def _finish_all_to_all(net):
    for target, held in enumerate(net.held):
        assert {(source, target) for source in range(net.devices)} <= set(held)
    return net.end()


def pairwise_all_to_all(size, devices, alpha, beta):
    net = _exchanging(devices, alpha, beta)
    for step in range(1, devices):
        messages = [(d, (d + step) % devices, [(d, (d + step) % devices)]) for d in range(devices)]
        net.round(messages, lambda _: size / devices**2)
    return _finish_all_to_all(net)


def bruck_all_to_all(size, devices, alpha, beta):
    net, distance = _exchanging(devices, alpha, beta), 1
    at = {(s, t): s for s in range(devices) for t in range(devices)}
    while distance < devices:
        messages = []
        for d in range(devices):
            moving = [
                b for b, place in at.items() if place == d and ((b[1] - b[0]) % devices) & distance
            ]
            messages.append((d, (d + distance) % devices, moving))
        net.round(messages, lambda _: size / devices**2)
        for _, target, moving in messages:
            at.update(dict.fromkeys(moving, target))
        distance *= 2
    return _finish_all_to_all(net)


def hierarchical_all_reduce(size, inside, across, alphas, betas):
    """Rings inside nodes, then across them between devices of equal rank, then inside again."""
    half = ring_reduce_scatter(size, inside, alphas[0], betas[0])
    between = ring_all_reduce(size / inside, across, alphas[1], betas[1])
    return half + between + ring_all_gather(size, inside, alphas[0], betas[0])


SIMULATED = {
    ("all_reduce", "ring"): ring_all_reduce,
    ("all_reduce", "recursive_doubling"): recursive_doubling_all_reduce,
    ("all_reduce", "rabenseifner"): rabenseifner_all_reduce,
    ("all_reduce", "binomial_tree"): binomial_tree_all_reduce,
    ("all_gather", "ring"): ring_all_gather,
    ("all_gather", "bruck"): bruck_all_gather,
    ("reduce_scatter", "ring"): ring_reduce_scatter,
    ("all_to_all", "pairwise"): pairwise_all_to_all,
    ("all_to_all", "bruck"): bruck_all_to_all,
    ("broadcast", "binomial_tree"): binomial_tree_broadcast,
    ("reduce", "binomial_tree"): binomial_tree_reduce,
}

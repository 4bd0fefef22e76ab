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

    def wait(self, until):
        """All devices begin what follows together, not before that moment."""
        self.out_free = [max(free, until) for free in self.out_free]
        self.in_free = [max(free, until) for free in self.in_free]

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


def _in_order_tree(devices):
    """Parent of each device and how deep it stands, in a tree whose in-order walk is 0, 1, 2, …

    Counted from 1 the leaves are the odd numbers, the rest stands as high as it has factors of two.
    """
    parent, depth = {}, {}

    def grow(low, high, above, level):
        if low > high:
            return
        step = 1 << (high.bit_length() - 1)
        while step * (high // step) < low:
            step //= 2
        root = step * (high // step)
        parent[root - 1], depth[root - 1] = None if above is None else above - 1, level
        grow(low, root - 1, root, level + 1)
        grow(root + 1, high, root, level + 1)

    grow(1, devices, None, 0)
    return [parent[d] for d in range(devices)], [depth[d] for d in range(devices)]


def _renamed(tree, names):
    """The same tree with other devices in its places."""
    parent, depth = tree
    other, deep = {}, {}
    for place, name in enumerate(names):
        above = parent[place]
        other[name] = None if above is None else names[above]
        deep[name] = depth[place]
    return tuple([places[d] for d in range(len(names))] for places in (other, deep))


def _two_trees(devices):
    """Two trees in which no device has children in both: mirrored for even N, shifted for odd."""
    first = _in_order_tree(devices)
    if devices % 2 == 0:
        names = [devices - 1 - d for d in range(devices)]
    else:
        names = [(d + 1) % devices for d in range(devices)]
    trees = [first, _renamed(first, names)]
    inner = [{above for above in parent if above is not None} for parent, _ in trees]
    assert not inner[0] & inner[1]
    return trees


def _two_slots(messages):
    """Part messages so that in each slot a device sends at most one and gets at most one.

    Senders and receivers are the two sides of a graph in which nobody has more than two edges: its
    paths and cycles, all even, are walked with alternating slots.
    """
    slots, at = {}, {}
    for place, (source, target, _) in enumerate(messages):
        at.setdefault(("out", source), []).append(place)
        at.setdefault(("in", target), []).append(place)
    assert all(len(places) <= 2 for places in at.values())
    # Paths first, from their ends; what is left are cycles, which may begin anywhere.
    ends = [places[0] for places in at.values() if len(places) == 1]
    for begin in ends + list(range(len(messages))):
        todo = [(begin, 0)] if begin not in slots else []
        while todo:
            place, slot = todo.pop()
            if place in slots:
                assert slots[place] == slot
                continue
            slots[place] = slot
            source, target, _ = messages[place]
            for side in (("out", source), ("in", target)):
                todo += [(other, 1 - slot) for other in at[side] if other != place]
    return [[m for place, m in enumerate(messages) if slots[place] == slot] for slot in (0, 1)]


def _piecewise_trees(size, devices, alpha, beta, trees, pieces):
    """Reduce along the trees and broadcast back, in rounds of two slots that all devices keep."""
    net = Network(devices, alpha, beta)
    blocks = [(tree, piece) for tree in range(len(trees)) for piece in range(pieces)]
    for device in range(devices):
        for block in blocks:
            net.put(device, block, {device})
    share = size / len(blocks)
    levels = max(max(depth) for _, depth in trees)
    slots = 2 if devices > 2 else 1
    clock = 0.0
    for up in (True, False):
        for number in range(levels + pieces - 1 if levels else 0):
            messages = []
            for tree, (parent, depth) in enumerate(trees):
                for device in range(devices):
                    if parent[device] is None:
                        continue
                    lag = levels - depth[device] if up else depth[device] - 1
                    piece = number - lag
                    if 0 <= piece < pieces:
                        ends = (device, parent[device]) if up else (parent[device], device)
                        messages.append((*ends, [(tree, piece)]))
            for slot in _two_slots(messages)[:slots]:
                net.round(slot, lambda _: share)
                clock += alpha + beta * share
                net.wait(clock)
    return _finish_all_reduce(net)


def binary_tree_all_reduce(size, devices, alpha, beta, pieces=1):
    return _piecewise_trees(size, devices, alpha, beta, [_in_order_tree(devices)], pieces)


def double_binary_tree_all_reduce(size, devices, alpha, beta, pieces=1):
    return _piecewise_trees(size, devices, alpha, beta, _two_trees(devices), pieces)


def scatter_all_gather_broadcast(size, devices, alpha, beta):
    """Binomial scatter of N blocks from device 0, then a ring."""
    net = Network(devices, alpha, beta)
    for block in range(devices):
        net.put(0, block, {0})
    distance = 1
    while distance < devices:
        distance *= 2
    distance //= 2
    while distance >= 1:
        messages = [
            (d, d + distance, list(range(d + distance, min(d + 2 * distance, devices))))
            for d in range(0, devices - distance, 2 * distance)
        ]
        net.round(messages, lambda _: size / devices)
        distance //= 2
    for step in range(devices - 1):
        messages = [(d, (d + 1) % devices, [(d - step) % devices]) for d in range(devices)]
        net.round(messages, lambda _: size / devices)
    return _finish_all_gather(net)


def shift_permute(size, devices, alpha, beta):
    net = _gathering(devices, alpha, beta)
    messages = [(d, (d + 1) % devices, [d]) for d in range(devices)] if devices > 1 else []
    net.round(messages, lambda _: size / devices)
    assert all((d - 1) % devices in held for d, held in enumerate(net.held))
    return net.end()


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
    ("all_reduce", "binary_tree"): binary_tree_all_reduce,
    ("all_reduce", "double_binary_tree"): double_binary_tree_all_reduce,
    ("all_gather", "ring"): ring_all_gather,
    ("all_gather", "bruck"): bruck_all_gather,
    ("reduce_scatter", "ring"): ring_reduce_scatter,
    ("all_to_all", "pairwise"): pairwise_all_to_all,
    ("all_to_all", "bruck"): bruck_all_to_all,
    ("broadcast", "binomial_tree"): binomial_tree_broadcast,
    ("broadcast", "scatter_all_gather"): scatter_all_gather_broadcast,
    ("reduce", "binomial_tree"): binomial_tree_reduce,
    ("permute", "shift"): shift_permute,
}

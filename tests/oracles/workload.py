"""The best plan of a workload by brute force: plain loops, and every formula written out."""

import math


def ring(machine, group, stride, size):
    """An all-reduce: in a node a ring; across nodes a tree for latency, the slower for bytes."""
    local = min(max(machine["node_size"] / stride, 1), group)
    nodes = group / local
    messages = math.log2(nodes) * machine["network_alpha"] + (local - 1) * machine["alpha"]
    slowest = machine["beta"]
    if nodes > 1:
        slowest = max(slowest, machine["network_beta"] / local)
    return 2 * messages + 2 * (group - 1) / group * slowest * size


def send(machine, group, stride, size):
    """From each device of a group to the next."""
    if group == 1:
        return 0.0
    if group * stride <= machine["node_size"]:
        return machine["alpha"] + machine["beta"] * size
    beta = max(machine["beta"], machine["network_beta"])
    return machine["network_alpha"] + beta * size


def data_parallel(work, machine, devices, batch):
    """(seconds, bytes, samples) of every split."""
    found = []
    for d in [devices] if batch % devices == 0 else []:
        for b in range(1, batch // d + 1):
            if batch // d % b:
                continue
            m = batch // d // b
            for sharded in (False, True) if d > 1 else (False,):
                owned = work["state_bytes"] / (d if sharded else 1)
                compute = m * (b + work["half_batch"]) * work["sample_flops"] / machine["rate"]
                moved = m * b * work["moved_bytes"] + 2 * owned
                once = ring(machine, d, 1, work["gradient_bytes"])
                passed = once
                if sharded:
                    passed = m * (once / 2 + ring(machine, d, 1, work["weight_bytes"]))
                behind = 1 if sharded else m  # micro-batches for each time that it is passed
                passed *= 1 - machine["overlap"] / behind
                seconds = compute + moved / machine["bandwidth"] + passed
                seconds += machine["step_overhead"] + m * machine["micro_batch_overhead"]
                held = owned + b * work["activation_bytes"]
                found.append((seconds, held + sharded * work["weight_bytes"], batch))
    return found


def halo(work, machine, devices, batch):
    """(seconds, bytes, samples) of every split into blocks."""
    found = []
    sides, w = work["grid"], work["width"]
    for x in range(1, devices + 1):
        for y in range(1, devices + 1):
            for z in range(1, devices + 1):
                if x * y * z != devices:
                    continue
                block, possible = [], True
                for side, cut in zip(sides, (x, y, z), strict=True):
                    each = math.ceil(side / cut)
                    # None may be empty, nor thinner than a halo.
                    possible &= cut == 1 or (each * (cut - 1) < side and cut * w <= side)
                    block.append(each)
                if not possible:
                    continue
                cells = math.prod(block)
                seconds = max(
                    cells * work["cell_flops"] / machine["rate"],
                    cells * work["moved_bytes"] / machine["bandwidth"],
                )
                stride, outer = 1, 1
                for each, cut in zip(block, (x, y, z), strict=True):
                    open_ends = min(cut - 1, 2)
                    neighbours = 2 * (cut > 1) if work["periodic"] else open_ends
                    face = w * work["sent_bytes"] * cells / each
                    one = send(machine, cut, stride, face)
                    seconds += work["exchanges"] * neighbours * one
                    stride *= cut
                    outer *= each + (2 * w if cut > 1 else 0)
                seconds += work["reductions"] * ring(machine, devices, 1, 8.0)
                seconds += machine["step_overhead"]
                found.append((seconds, outer * work["cell_bytes"], math.prod(sides)))
    return found


def matmul(work, machine, devices, batch):
    """(seconds, bytes, samples) of every mesh with every matrix at rest."""
    found = []
    m, k, n, item = work["m"], work["k"], work["n"], work["item_bytes"]

    def step(inner, outer, travels, panels=1):
        edges = (1 + machine["grain"] / inner) * (1 + machine["grain"] / outer)
        seconds = 2 * m * k * n / devices * edges / machine["rate"] + machine["step_overhead"]
        for size, group, stride in travels:
            seconds += panels * ring(machine, group, stride, size / panels) / 2
        gathered = sum(size for size, group, _ in travels if group > 1) / panels
        return seconds, item * (m * k + k * n + m * n) / devices + gathered, 1

    for rows in range(1, devices + 1):
        for columns in range(1, devices + 1):
            if rows * columns != devices:
                continue
            across, down = (columns, 1), (rows, columns)
            if m % rows == k % rows == k % columns == n % columns == 0:
                travels = (item * m * k / rows, *across), (item * k * n / columns, *down)
                for panels in (1, 2, 4, 8, 16, 32, 64) if devices > 1 else (1,):
                    if k % (panels * max(rows, columns)) == 0:
                        found.append(step(k / panels, n / columns, travels, panels))
            if devices > 1 and m % rows == n % rows == k % columns == n % columns == 0:
                travels = (item * m * n / rows, *across), (item * k * n / columns, *down)
                found.append(step(k / columns, n, travels))
            if devices > 1 and k % rows == m % rows == n % columns == m % columns == 0:
                travels = (item * m * k / rows, *across), (item * m * n / columns, *down)
                found.append(step(k / rows, n / columns, travels))
    return found


def best(split, work, machine, devices, batches, *, memory, price, objective, **run):
    """The least value of the objective, infinite where nothing keeps the limits; how many tried."""
    least, count = math.inf, 0
    for number in devices:
        for batch in batches:
            for seconds, held, samples in split(work, machine, number, batch):
                count += 1
                steps = run["steps"] if run["samples"] is None else run["samples"] / samples
                time = seconds * steps
                cost = price * number * time
                if held > memory or time > run["deadline"] or cost > run["budget"]:
                    continue
                values = {"time": time, "cost": cost, "cost_time": cost * time, "devices": number}
                least = min(least, values[objective])
    return least, count

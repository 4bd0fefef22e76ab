"""The α–β model: a message of n bytes takes α + β n, and a collective is a schedule of messages.

T = launch + messages(N) · α + volume(N) · β M

and where a tree forwards the array in k pieces, k as good as it can be, a term in √(α β M) besides.
Sizes are always of the full, unsharded array: in an all-reduce each device holds all M bytes before
and after, in an all-gather M/N before and M after, in a reduce-scatter the reverse, in an
all-to-all M/N before and after. The counts of each algorithm stand in `scaleopt.models.schedules`;
what has one device at its root in `scaleopt.models.rooted`, what goes from one to one in
`scaleopt.models.point_to_point`.
"""

from typing import Literal

from jax import Array

from scaleopt.models.schedules import Pipeline, algorithm_of
from scaleopt.units import Bytes, Count, Scalar, Seconds, SecondsPerByte, real

AllReduceAlgorithm = Literal[
    "ring",
    "recursive_doubling",
    "rabenseifner",
    "binomial_tree",
    "binary_tree",
    "double_binary_tree",
]
AllGatherAlgorithm = Literal["ring", "bruck"]
AllToAllAlgorithm = Literal["pairwise", "bruck"]
Collective = Literal[
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "permute"
]


def collective_time(
    collective: Collective,
    algorithm: str,
    size: Scalar,
    devices: Scalar,
    alpha: Scalar,
    beta: Scalar,
    launch: Scalar,
    pieces: Scalar | None = None,
) -> Array:
    """Seconds of a collective by an algorithm, all arguments as in the function of its name."""
    planned = algorithm_of(collective, algorithm)
    size, devices, alpha, beta, launch = real(size, devices, alpha, beta, launch)
    schedule = planned(devices)
    if pieces is not None:
        if not isinstance(schedule, Pipeline):
            raise ValueError(
                f"pieces={pieces} was given, and {algorithm} sends whole shares; leave it out, or "
                "choose binary_tree or double_binary_tree"
            )
        if isinstance(pieces, (int, float)) and pieces < 1:
            raise ValueError(f"pieces={pieces}; an array is cut into 1 or more")
        schedule = schedule.cut(*real(pieces))
    return launch + schedule.time(alpha, beta * size)


def all_reduce_time(
    size: Bytes,
    devices: Count,
    alpha: Seconds,
    beta: SecondsPerByte,
    *,
    launch: Seconds = 0.0,
    algorithm: AllReduceAlgorithm = "ring",
    pieces: Count | None = None,
) -> Seconds:
    """Seconds to sum an array over all devices and leave the sum on each.

    ring:                T = launch + 2(N − 1) α + 2 ((N − 1)/N) β M
    recursive_doubling:  T = launch + log₂N (α + β M)
    rabenseifner:        T = launch + 2 log₂N α + 2 ((N − 1)/N) β M
    binomial_tree:       T = launch + 2 ⌈log₂N⌉ (α + β M)
    binary_tree:         T = launch + 2w (h + k − 1) (α + β M/k)
    double_binary_tree:  T = launch + 2w (h + k − 1) (α + β M/(2k))

    Where N is no power of two the second and third take that of the largest below it, and
    2(α + β M) more. The last two forward the array in k pieces, in rounds that all devices keep,
    along trees of h = ⌊log₂N⌋ levels; w = min(N − 1, 2).

    Args:
        size: M [B], bytes of the full, unsharded array.
        devices: N, number of devices; at 1 only the launch remains.
        alpha: α [s], time of an empty message.
        beta: β [s/B], inverse of the bandwidth of one device in one direction.
        launch: [s], fixed cost of the operation, whatever N and M.
        algorithm: the schedule of messages.
        pieces: k, into how many pieces a tree's share is cut; without it the best real number, at
            least 1, as a library that picks its own would have it.

    Returns:
        T [s].

    Raises:
        ValueError: an algorithm that is not known, pieces for one that has none, or below 1.

    >>> round(float(all_reduce_time(1e9, 8, 8e-6, 1 / 25e9)) * 1e3, 3)
    70.112
    >>> round(float(all_reduce_time(1e9, 8, 8e-6, 1 / 25e9, algorithm="rabenseifner")) * 1e3, 3)
    70.048

    Source: R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19(1), 2005, section 4; P. Sanders,
    J. Speck, J. L. Träff, Parallel Computing 35, 2009, for the trees.
    """
    return collective_time("all_reduce", algorithm, size, devices, alpha, beta, launch, pieces)


def all_gather_time(
    size: Bytes,
    devices: Count,
    alpha: Seconds,
    beta: SecondsPerByte,
    *,
    launch: Seconds = 0.0,
    algorithm: AllGatherAlgorithm = "ring",
) -> Seconds:
    """Seconds to collect an array that is spread over the devices on each of them.

    ring:   T = launch + (N − 1) α + ((N − 1)/N) β M
    bruck:  T = launch + ⌈log₂N⌉ α + ((N − 1)/N) β M

    Args:
        size: M [B], bytes of the full, unsharded array.
        devices: N, number of devices; at 1 only the launch remains.
        alpha: α [s], time of an empty message.
        beta: β [s/B], inverse of the bandwidth of one device in one direction.
        launch: [s], fixed cost of the operation, whatever N and M.
        algorithm: the schedule of messages.

    Returns:
        T [s].

    Raises:
        ValueError: an algorithm that is not known.

    >>> round(float(all_gather_time(1e9, 8, 8e-6, 1 / 25e9)) * 1e3, 3)
    35.056

    Source: R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19(1), 2005, section 3.
    """
    return collective_time("all_gather", algorithm, size, devices, alpha, beta, launch)


def reduce_scatter_time(
    size: Bytes,
    devices: Count,
    alpha: Seconds,
    beta: SecondsPerByte,
    *,
    launch: Seconds = 0.0,
) -> Seconds:
    """Seconds to sum an array over all devices and leave a share of the sum on each.

    ring:  T = launch + (N − 1) α + ((N − 1)/N) β M

    Args:
        size: M [B], bytes of the full, unsharded array.
        devices: N, number of devices; at 1 only the launch remains.
        alpha: α [s], time of an empty message.
        beta: β [s/B], inverse of the bandwidth of one device in one direction.
        launch: [s], fixed cost of the operation, whatever N and M.

    Returns:
        T [s].

    >>> round(float(reduce_scatter_time(1e9, 8, 8e-6, 1 / 25e9)) * 1e3, 3)
    35.056

    Source: R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19(1), 2005, section 4.
    """
    return collective_time("reduce_scatter", "ring", size, devices, alpha, beta, launch)


def all_to_all_time(
    size: Bytes,
    devices: Count,
    alpha: Seconds,
    beta: SecondsPerByte,
    *,
    launch: Seconds = 0.0,
    algorithm: AllToAllAlgorithm = "pairwise",
) -> Seconds:
    """Seconds for each device to send a share of its part of the array to each other.

    pairwise:  T = launch + (N − 1) α + ((N − 1)/N²) β M
    bruck:     T = launch + ⌈log₂N⌉ α + (b(N)/N²) β M,  b = Σ of the set bits of 1 … N − 1

    Args:
        size: M [B], bytes of the full, unsharded array.
        devices: N, number of devices; at 1 only the launch remains.
        alpha: α [s], time of an empty message.
        beta: β [s/B], inverse of the bandwidth of one device in one direction.
        launch: [s], fixed cost of the operation, whatever N and M.
        algorithm: the schedule of messages.

    Returns:
        T [s].

    Raises:
        ValueError: an algorithm that is not known.

    >>> round(float(all_to_all_time(1e9, 8, 8e-6, 1 / 25e9)) * 1e3, 3)
    4.431

    Source: J. Bruck et al., IEEE TPDS 8(11), 1997.
    """
    return collective_time("all_to_all", algorithm, size, devices, alpha, beta, launch)

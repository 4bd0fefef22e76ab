"""How long arrays are made for a compiled program: few lengths, so that few are compiled."""


def program_length(count: int, fewest: int = 2) -> int:
    """The next power of two, to which the values are repeated.

    Args:
        count: how many values there are.
        fewest: a power of two; as many are taken at least.

    >>> program_length(240), program_length(257), program_length(3, fewest=256)
    (256, 512, 256)
    """
    return max(fewest, 1 << max(count - 1, 0).bit_length())

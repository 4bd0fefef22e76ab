"""What XLA itself counts in a program: FLOP and bytes, without running it."""

import jax


def counted(function, *operands):
    """(FLOP, bytes accessed) of a function of arrays of these shapes and types.

    Before compilation: afterwards a backend has made the program its own, such as bfloat16 by
    float32 on a CPU.
    """
    analysis = jax.jit(function).lower(*operands).cost_analysis()
    assert analysis is not None
    return analysis["flops"], analysis["bytes accessed"]

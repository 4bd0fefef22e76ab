"""How much arithmetic an operation does for each byte, counted exactly for any shape and type.

Bytes count each operand once in and each result once out, as a perfect cache would have it: the
intensities are upper bounds. FLOP count two for each multiply-add.
"""

from scaleopt.units import Bytes, Count, CountedFlops, CountedIntensity, real


def elementwise_intensity(
    inputs: Count, outputs: Count, operations: Count, item: Bytes
) -> CountedIntensity:
    """Intensity of an operation on each element.

    I = operations / ((inputs + outputs) · item)

    Args:
        inputs: arrays read.
        outputs: arrays written.
        operations: FLOP for each element.
        item: [B], bytes of an element.

    Returns:
        I [FLOP/B], whatever the size: 1/12 for an addition in float32.

    >>> round(float(elementwise_intensity(2, 1, 1, 4)) * 12, 3)
    1.0

    Source: S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52(4), 2009.
    """
    inputs, outputs, operations, item = real(inputs, outputs, operations, item)
    return operations / (inputs + outputs) / item


def saxpy_intensity(item: Bytes) -> CountedIntensity:
    """Intensity of y ← a x + y: two FLOP for two elements read and one written.

    I = 2 / (3 · item)

    Args:
        item: [B], bytes of an element.

    Returns:
        I [FLOP/B]: 1/6 in float32.

    >>> round(float(saxpy_intensity(4)) * 6, 3)
    1.0

    Source: S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52(4), 2009.
    """
    return elementwise_intensity(2, 1, 2, item)


def gemm_flops(m: Count, k: Count, n: Count) -> CountedFlops:
    """FLOP of a matrix product (m, k) × (k, n).

    W = 2 m k n

    Args:
        m: rows of the first matrix.
        k: columns of the first, rows of the second.
        n: columns of the second.

    Returns:
        W [FLOP].

    >>> f"{gemm_flops(4096, 4096, 4096):.4g}"
    '1.374e+11'

    Source: J. J. Dongarra et al., "Level 3 BLAS", ACM TOMS 16(1), 1990.
    """
    m, k, n = real(m, k, n)
    return 2 * m * k * n


def gemm_bytes(m: Count, k: Count, n: Count, item: Bytes) -> Bytes:
    """Bytes of the two operands and the result of a matrix product.

    Q = (m k + k n + m n) · item

    Args:
        m: rows of the first matrix.
        k: columns of the first, rows of the second.
        n: columns of the second.
        item: [B], bytes of an element.

    Returns:
        Q [B].

    >>> float(gemm_bytes(2, 3, 4, 4))
    104.0

    Source: J. J. Dongarra et al., "Level 3 BLAS", ACM TOMS 16(1), 1990.
    """
    m, k, n, item = real(m, k, n, item)
    return (m * k + k * n + m * n) * item


def gemm_intensity(m: Count, k: Count, n: Count, item: Bytes) -> CountedIntensity:
    """Intensity of a matrix product.

    I = 2 / ((1/n + 1/m + 1/k) · item)

    Args:
        m: rows of the first matrix.
        k: columns of the first, rows of the second.
        n: columns of the second.
        item: [B], bytes of an element.

    Returns:
        I [FLOP/B].

    >>> round(float(gemm_intensity(4096, 4096, 4096, 2)))
    1365

    Source: J. J. Dongarra et al., "Level 3 BLAS", ACM TOMS 16(1), 1990.
    """
    m, k, n, item = real(m, k, n, item)
    # The quotient of counts would overflow float32 in its derivatives for large shapes.
    return 2 / (1 / n + 1 / m + 1 / k) / item


def gemv_intensity(m: Count, n: Count, item: Bytes) -> CountedIntensity:
    """Intensity of a matrix (m, n) times a vector: each element of the matrix is used once.

    I = 2 / ((1 + 1/n + 1/m) · item)

    Args:
        m: rows.
        n: columns.
        item: [B], bytes of an element.

    Returns:
        I [FLOP/B], towards 2/item for large shapes: 1 in bfloat16, 2 in int8.

    >>> round(float(gemv_intensity(8192, 8192, 2)), 3)
    1.0

    Source: J. J. Dongarra et al., "Extended set of Fortran BLAS", ACM TOMS 14(1), 1988.
    """
    return gemm_intensity(m, n, 1.0, item)


def decode_intensity(
    batch: Count, parameters: Count, item: Bytes, cache: Bytes
) -> CountedIntensity:
    """Intensity of generating one token for each sequence of a batch.

    I = 2 P B / (P · item + B · cache)

    Args:
        batch: B, sequences decoded together; they share one reading of the weights.
        parameters: P, weights used for a token.
        item: [B], bytes of a weight.
        cache: [B], keys and values that one sequence reads for its token.

    Returns:
        I [FLOP/B].

    >>> round(float(decode_intensity(1, 7e9, 2, 0)), 3)
    1.0
    >>> round(float(decode_intensity(64, 7e9, 2, 1e9)), 1)
    11.5

    Source: R. Pope et al., "Efficiently scaling transformer inference", MLSys 2023, section 2.
    """
    batch, parameters, item, cache = real(batch, parameters, item, cache)
    return 2 / (item / batch + cache / parameters)


def prefill_intensity(tokens: Count, item: Bytes) -> CountedIntensity:
    """Intensity of reading a prompt: all its tokens share one reading of the weights.

    I = 2 t / item

    Args:
        tokens: t, of all prompts in the batch together.
        item: [B], bytes of a weight.

    Returns:
        I [FLOP/B], as far as activations are few beside weights.

    >>> float(prefill_intensity(2048, 2))
    2048.0

    Source: R. Pope et al., "Efficiently scaling transformer inference", MLSys 2023, section 2.
    """
    tokens, item = real(tokens, item)
    return 2 * tokens / item

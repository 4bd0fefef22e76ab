"""How many steps a training run takes, against its batch: more sequences a step, fewer steps.

Up to the critical batch twice the sequences save half the steps; far above it they save none. With
at least S_min steps however large the batch, and E_min sequences however small it is,

(S/S_min − 1) (E/E_min − 1) = 1,  which with E = B S gives  S = S_min + E_min/B,

and the critical batch B_c = E_min/S_min is where a run takes twice as many of both.

Source: S. McCandlish et al., "An empirical model of large-batch training", arXiv 1812.06162, 2018,
section 2.3.
"""

from jax import Array

from scaleopt.units import Count, real


def steps_to_target(batch: Count, samples: Count, critical_batch: Count) -> Array:
    """Steps that a run takes to reach a given loss.

    S = (E_min/B) (1 + B/B_c)

    Args:
        batch: B, sequences of a step.
        samples: E_min, sequences that it takes at small batches.
        critical_batch: B_c, about the gradient noise scale; infinite where the batch costs nothing.

    Returns:
        S.

    >>> [float(steps_to_target(b, samples=1e6, critical_batch=1000.0)) for b in (100, 1000, 10**4)]
    [11000.0, 2000.0, 1100.0]

    Source: as the module.
    """
    batch, samples, critical = real(batch, samples, critical_batch)
    return samples / batch * (1 + batch / critical)


def samples_to_target(batch: Count, samples: Count, critical_batch: Count) -> Array:
    """Sequences that a run takes to reach a given loss.

    E = E_min (1 + B/B_c)

    Args:
        batch: B, sequences of a step.
        samples: E_min, sequences that it takes at small batches.
        critical_batch: B_c, about the gradient noise scale.

    Returns:
        E.

    >>> float(samples_to_target(1000, samples=1e6, critical_batch=1000.0))
    2000000.0

    Source: as the module.
    """
    batch, samples, critical = real(batch, samples, critical_batch)
    return samples * (1 + batch / critical)

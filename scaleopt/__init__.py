"""How many accelerators to use: measure a few, fit a scaling law, decide with known certainty.

Symbols, as the docstrings use them; numbers are in SI, and `scaleopt.units` has the multipliers.

| here | in the literature | unit |
|---|---|---|
| devices | N, p | 1 |
| parallel_fraction | p | 1 |
| alpha | α, latency of a message | s |
| beta | β, inverse bandwidth of one device in one direction | s/B |
| rate | r, sustained compute rate of one device | FLOP/s |
| flops | W, work of one step over all devices: a count, never a rate | FLOP |
| size | M, bytes of the full, unsharded array | B |
| serial_time | t_s, what stays when devices are added | s |
| launch | fixed cost of starting a program | s |

The names are imported when they are first used, so that `scaleopt --help` does not wait for JAX.
"""

import importlib.metadata

import lazy_loader

__version__ = importlib.metadata.version("scaleopt")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

"""Amounts as a person would say them."""

from scaleopt.units import GB, hour, minute

_DAY = 24 * hour
AIMS = {
    "time": "time",
    "cost": "cost",
    "cost_time": "cost × time",
    "devices": "the number of devices",
    "energy": "energy",
}
"""What each objective makes small."""


def duration(seconds: float) -> str:
    """A time in the unit that suits it.

    >>> duration(0.0123), duration(46.3), duration(5400.0), duration(1e6), duration(-2.0)
    ('12.3 ms', '46.3 s', '1.5 h', '11.6 days', '-2 s')
    """
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 1:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 2 * minute:
        return f"{seconds:.3g} s"
    if seconds < hour:
        return f"{seconds / minute:.3g} min"
    return f"{seconds / hour:.3g} h" if seconds < 2 * _DAY else f"{seconds / _DAY:,.1f} days"


def dollars(amount_: float) -> str:
    """An amount of money.

    >>> dollars(942683.5), dollars(0.25)
    ('942,684 USD', '0.25 USD')
    """
    return f"{amount_:,.0f} USD" if amount_ >= 100 else f"{amount_:.3g} USD"


def gigabytes(size: float) -> str:
    """Bytes of a memory.

    >>> gigabytes(64.2e9)
    '64.2 GB'
    """
    return f"{size / GB:.3g} GB"


def percent(share: float) -> str:
    """A share.

    >>> percent(0.123), percent(0.00123)
    ('12 %', '0.12 %')
    """
    return f"{100 * share:.2g} %" if abs(share) < 0.995 else f"{100 * share:,.0f} %"


def counted(devices: int) -> str:
    """A number of devices.

    >>> counted(1), counted(64)
    ('1 device', '64 devices')
    """
    return f"{devices} device{'' if devices == 1 else 's'}"


def amount(count: float) -> str:
    """A count.

    >>> amount(95367.4)
    '95,367'
    """
    return f"{count:,.0f}"

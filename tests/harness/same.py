"""Whether two values are equal and of the same types, all the way down."""

import dataclasses
import datetime as dt


def same(a, b):
    """Whether *a* and *b* are, time zones and fields of dataclasses included."""
    if type(a) is not type(b) or a != b:
        return False
    if isinstance(a, dict):
        return all(map(same, a.items(), b.items()))
    if isinstance(a, (list, tuple)):
        return all(map(same, a, b))
    if isinstance(a, (dt.datetime, dt.time)):
        return (a.tzinfo, a.fold) == (b.tzinfo, b.fold)
    fields = dataclasses.fields(a) if dataclasses.is_dataclass(a) else ()
    return all(same(getattr(a, one.name), getattr(b, one.name)) for one in fields)

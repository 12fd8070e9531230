"""Many values of one claim as one case: all are tried, and each that fails is told."""

import functools
import inspect


def each(names, values):
    """Do as ``pytest.mark.parametrize``, in one case, whose fixtures are made once.

    It is for claims about every file, page or number, and for values that leave
    nothing behind.
    """
    several = isinstance(names, tuple)
    split = names if isinstance(names, tuple) else (names,)
    every = list(values)

    def decorate(function):
        @functools.wraps(function)
        def run(**fixtures):
            assert every, f"no {names} is there to be tried"
            faults = []
            for value in every:
                given = dict(zip(split, value if several else (value,), strict=True))
                try:
                    function(**fixtures, **given)
                except Exception as error:  # noqa: BLE001 (each is told)
                    error.add_note(f"with {given!r:.500}")
                    faults.append(error)
            if faults:
                raise ExceptionGroup(f"{len(faults)} of {len(every)} fail", faults)

        asked = inspect.signature(function)
        kept = [asked.parameters[n] for n in asked.parameters if n not in split]
        run.__signature__ = asked.replace(parameters=kept)
        return run

    return decorate


def rows(text):
    """The words of each line of *text*: a table whose cells have no spaces."""
    return [line.split() for line in text.strip().splitlines()]

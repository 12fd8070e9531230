"""Settings: ``FRONTIER_*``, read once into a frozen config.

`config` declares each with its default and parser; a name that it does not know is an
error that suggests the nearest one. `values` has the parsers. A value that cannot work
is refused before anything starts, with the name of its setting. No I/O, except on files
that a setting names. `docs/settings.md` says what each does.
"""

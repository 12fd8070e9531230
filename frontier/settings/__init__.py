"""Settings: ``FRONTIER_*``, read once into a frozen config.

`config` declares each with its default and parser; a name that it does not know is
an error that suggests the near one. `values` has the parsers.
"""

"""One module per system that is measured; each has one function, ``measure(rows, effort)``."""

"""A notebook's variables as of each cell: what changed, stored and restored. Knows no IPython."""

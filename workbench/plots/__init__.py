"""Pictures of a session with matplotlib: the public `plot_*` functions, and a still form's PNG."""

"""Plots of a session with matplotlib: the public `plot_*` functions."""

"""What is measured: pools and stores of `pools`, and functions ``measure(rows, effort)``."""

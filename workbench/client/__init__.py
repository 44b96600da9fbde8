"""A process's side of the session: its connection, its arena, its handles and views.

Drivers and workers are clients alike; what makes a worker one is in `worker`.
"""

"""Interfaces of other libraries over the pool: executors, joblib, multiprocessing's Pool.

Each file serves one interface, and imports the library that defines it inside functions.
"""

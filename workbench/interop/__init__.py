"""Interfaces that other libraries know, over the pool: executors, joblib, multiprocessing's Pool.

Each file serves one interface, and imports the library that defines it inside functions.
"""

"""Shared memory: segments, the arena that parcels one out, copies in, views out; and the disk.

The only place with mmap and descriptors of memory, so there is one place to check for leaks.
"""

"""Shared memory: segments, their allocator (arena), copies in, views out; and spill files.

The only room with mmap and descriptors of memory, so there is one place to check for leaks.
"""

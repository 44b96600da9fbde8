"""What this operating system gives, and how we use it: limits, memory, descriptors, signals."""

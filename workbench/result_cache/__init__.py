"""Results on disk, by the code and the inputs that they were computed from. Runs nothing."""

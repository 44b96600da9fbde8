"""What Ray's API has and ours has not: which of it asks for nothing, what to do instead. Tables."""

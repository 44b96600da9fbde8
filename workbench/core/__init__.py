"""Pure decisions: events in, instructions out. No IO, no thread, no clock, no user object."""

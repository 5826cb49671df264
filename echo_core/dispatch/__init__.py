"""On which thread, and when, components get their events."""

"""What components hold: nodes, channels, sources, sinks. Each is thin and refers to the part that works."""

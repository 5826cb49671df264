"""What a user reads from a log: events, arrays and columns of what is asked for."""

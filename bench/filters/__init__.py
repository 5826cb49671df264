"""What it costs to judge events, beside numpy and Python's own functions in the same run."""

"""What `python -m bench latency` and its siblings measure, a module for each."""

"""Many records at once: arrays and columns."""

"""Records as Arrow columns, for whoever works with these."""

"""Processes that measure together: started, placed on cores, brought together; and the same in plain C."""

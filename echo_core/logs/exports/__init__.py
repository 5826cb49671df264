"""Logs written in forms that others read."""

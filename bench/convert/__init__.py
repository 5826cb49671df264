"""Conversions of foreign layouts, and of records to columns, beside memcpy, numpy and FFS."""

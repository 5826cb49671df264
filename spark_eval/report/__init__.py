"""Samples to a page: statistics, tables, plots, words."""

"""The report of a comparison: statistics, tables, plots and text."""

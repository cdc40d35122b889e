"""Aggregates of a scan: counts, extremes, sums and averages, of all rows or by group."""

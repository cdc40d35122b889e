"""The scheduler of range reads and the engine around it: flights, budgets, the decode pool.

The highest folder of `alance.io`: may import any other.
"""

"""Predicates and projections."""

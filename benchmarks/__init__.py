"""Benchmarks: alance beside pylance on the same data, in the same run. `make bench`."""

"""Benchmarks: alance beside pylance and Vortex on the same data, in the same run. `make bench`."""

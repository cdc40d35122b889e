"""Reading data files by plans, and writing them.

`open` opens files and `rows` decodes their rows; neither waits. `write` encodes and uploads new
files. `older` does all of that for files of 2.0 and 0.1. Imports `format` and `io`.
"""

"""Reading of data files by plans, and writing of data files.

`open` opens files, and `rows` decodes their rows; neither waits. `write` encodes and uploads new
files. `older` does all this for files of 2.0 and 0.1. Modules may import `format` and `io`.
"""

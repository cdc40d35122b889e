"""File and table formats: conversion of bytes to arrays and metadata, and back, without I/O.

Functions raise these errors; messages say what was found and what was expected. A docstring names
other errors, and conditions that its first line does not imply.
  CorruptFileError     bytes contradict the format
  UnsupportedError     bytes are valid, but not read here; or a version cannot hold a type or value
  InvalidInputError    values, names or options to write are wrong
  BatchTooLargeError   a batch exceeds what 32-bit offsets can address; fewer rows may fit
"""

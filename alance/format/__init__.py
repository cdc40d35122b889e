"""File and table formats: conversion of bytes to arrays and metadata, and back, without I/O.

Bytes that contradict the format raise `CorruptFileError`; its message says what was found, and what
was expected. So docstrings name other errors only.
"""

"""Inner loops in C++: contiguous buffers in and out, every bound checked, no GIL held."""

from typing import Any

import numpy as np
import numpy.typing as npt

# --- bitpacking.cpp ---

# --- fsst.cpp ---

# --- runs.cpp ---

# --- streams.cpp ---

# --- strings.cpp ---

# --- chunks.cpp ---

# --- levels.cpp ---

# --- fullzip.cpp ---

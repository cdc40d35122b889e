"""The keyword arguments of `create_index`, whatever the index."""

from __future__ import annotations

from alance.ops.index.new_text import TextIndexArguments
from alance.ops.index.new_vector import VectorIndexArguments


class IndexArguments(VectorIndexArguments, TextIndexArguments, total=False):
    """Those of vectors, or those of texts."""

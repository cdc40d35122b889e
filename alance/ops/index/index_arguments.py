"""The keyword arguments of `create_index` and `create_scalar_index`, whatever the index."""

from __future__ import annotations

from alance.ops.index.new_text import TextIndexArguments
from alance.ops.index.new_vector import VectorIndexArguments
from alance.ops.index.value_options import ValueIndexArguments
from alance.ops.version.commit_options import CommitArguments


class IndexArguments(VectorIndexArguments, TextIndexArguments, total=False):
    """Those of vectors, or those of texts."""


class ScalarIndexArguments(ValueIndexArguments, TextIndexArguments, CommitArguments, total=False):
    """Those of the commit, of values, and of texts."""

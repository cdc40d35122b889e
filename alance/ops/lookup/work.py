"""Estimated work of converting a filter to questions for indices and statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alance.expr.arrow import ArrowCondition
from alance.expr.logic import literal_bytes
from alance.expr.pruning import num_listed
from alance.ops.version.conditions import CHARACTER_BYTES, KEY_BYTES, expression_work

if TYPE_CHECKING:
    from alance.expr import Predicate

# Questions and checks of filters with less work are memoized as long as the table's manifest or
# schema.
SHORT_FILTER_WORK: Final = 64 << 10


def checking_work(predicate: Predicate) -> int:
    """Return the work of converting a filter to questions, in units of decoding a byte."""
    work = CHARACTER_BYTES * len(predicate.text) + KEY_BYTES * num_listed(predicate.condition)
    if isinstance(predicate.condition, ArrowCondition):
        work += expression_work(predicate.text)
    return work + literal_bytes(predicate.condition)

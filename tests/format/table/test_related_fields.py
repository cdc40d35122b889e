"""Fields that an index on other fields may depend on."""

from __future__ import annotations

import itertools

from alance.format.proto import file_pb2
from alance.format.table.changes.apply_indices import related


def test_related_fields_do_not_depend_on_the_order_in_the_manifest() -> None:
    parents = {1: -1, 2: 1, 3: 2, 4: 1, 5: -1}
    fields = [file_pb2.Field(id=own, parent_id=above) for own, above in parents.items()]
    for ordered in itertools.permutations(fields):
        assert related(ordered, [3]) == {1, 2, 3}
        assert related(ordered, [2]) == {1, 2, 3}
        assert related(ordered, [1]) == {1, 2, 3, 4}
        assert related(ordered, [5, 9]) == {5, 9}
        assert related(ordered, [3, 4]) == {1, 2, 3, 4}

"""The counts of `Dataset.summary`."""

from __future__ import annotations

import json
import pickle

import pytest

from alance.ops.version.summary import RENAMED, ChangeSummary


def test_counts_are_entries_and_attributes() -> None:
    summary = ChangeSummary(num_updated_rows=3)
    assert summary == {"num_updated_rows": 3}
    assert summary.num_updated_rows == 3
    assert summary.num_deleted_rows == ChangeSummary.num_deleted_rows == 0
    assert json.loads(json.dumps(summary)) == {"num_updated_rows": 3}
    assert pickle.loads(pickle.dumps(summary)) == summary


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_an_old_key_warns_and_names_the_new_key(old: str, new: str) -> None:
    summary = ChangeSummary(**{new: 3})  # type: ignore[misc]
    with pytest.warns(DeprecationWarning, match=new):
        assert summary[old] == 3
    with pytest.warns(DeprecationWarning, match=new):
        assert summary.get(old) == 3
    with pytest.warns(DeprecationWarning, match=new):
        assert old in summary


def test_a_key_that_the_verb_does_not_count_is_missing() -> None:
    summary = ChangeSummary(num_deleted_rows=1)
    assert summary.get("num_rows_updated", 7) == 7
    with pytest.raises(KeyError):
        summary["num_rows_updated"]

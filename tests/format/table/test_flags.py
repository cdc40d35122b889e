"""Feature flags: what is read, what is refused, what is no valid table."""

from __future__ import annotations

import pytest

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.table import flags
from alance.format.table.flags import check_readable, names_of

SUPPORTED = [1, 2, 4, 8, 16, 32, 128, 256, 1024, 2048, 16384]


@pytest.mark.parametrize("flag", SUPPORTED)
def test_known_flags_are_read(flag: int) -> None:
    check_readable(flag, flag, has_max_field_id=False)


@pytest.mark.parametrize("flag", [64, 512, 4096, 8192, 65536, 1 << 17, 1 << 40])
def test_unknown_flags_are_refused_by_number(flag: int) -> None:
    with pytest.raises(UnsupportedError, match=str(flag)):
        check_readable(flag, flag, has_max_field_id=False)


@pytest.mark.parametrize("flag", [8, 32, 64, 128, 2048, 1 << 20])
def test_writers_flags_do_not_stop_readers(flag: int) -> None:
    check_readable(0, flag, has_max_field_id=False)


@pytest.mark.parametrize("flag", [256, 1024, 16384, 65536])
@pytest.mark.parametrize("in_reader", [True, False])
def test_paired_flags_stand_in_both_words(flag: int, in_reader: bool) -> None:
    reader, writer = (flag, 0) if in_reader else (0, flag)
    with pytest.raises(CorruptFileError, match="one of two"):
        check_readable(reader, writer, has_max_field_id=False)


def test_field_ids_not_reused() -> None:
    flag = flags.FIELD_IDS_NOT_REUSED
    check_readable(0, flag, has_max_field_id=True)
    for reader, writer, has in [(0, flag, False), (0, 0, True), (flag, flag, True)]:
        with pytest.raises(CorruptFileError):
            check_readable(reader, writer, has_max_field_id=has)


def test_flags_are_named_in_messages() -> None:
    assert names_of(1 | 1 << 40) == f"1 (deletion files), {1 << 40} (unknown)"

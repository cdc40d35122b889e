"""pyarrow expressions: understood for sure, or not at all; and then the same answers."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import alance
from alance.expr.arrow_parts import implied_by

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 30_000
NUMBERS = np.arange(ROWS)
TABLE = pa.table(
    {
        "k": NUMBERS,
        "i": NUMBERS.astype(np.int32),
        "u": NUMBERS.astype(np.uint64),
        "f": np.where(NUMBERS == 1, np.nan, NUMBERS / 4),
        "g": (NUMBERS / 4).astype(np.float32),
        "s": [f'n"{number:05}' for number in range(ROWS)],
        "b": NUMBERS > 20_000,
        "d": pa.array(NUMBERS.astype(np.int32)).cast(pa.date32()),
        "t": pa.array(NUMBERS * 1_000_000, pa.timestamp("us")),
        "z": pa.array(NUMBERS * 1000, pa.timestamp("ms", "UTC")),
        "n": pa.array(NUMBERS, mask=NUMBERS < 25_000),
        "two words": NUMBERS,
        "dec": pa.array(NUMBERS).cast(pa.decimal128(24, 2)),
    }
)
K, F = pc.field("k"), pc.field("f")
KNOWN = [
    K == 5,
    pc.scalar(29_000) < K,
    (K > 100) & (K < 200),
    (K < 5) | (K >= 29_990),
    ~(K > 7),
    pc.field("i") == 7,
    pc.field("i") == pa.scalar(7, pa.int32()),
    pc.field("i") == pa.scalar(7, pa.int16()),
    pc.field("u") == pa.scalar(7, pa.uint64()),
    (F < 10.5) & (F > -1e300),
    pc.field("g") == 0.25,
    pc.is_nan(F),
    (F > 29_990.5) | pc.is_nan(F),
    pc.is_nan(pc.field("g")) & (K < 100),
    pc.field("s") == 'n"00777',
    (pc.field("b") == True) & (K < 20_010),  # noqa: E712  # an expression
    ~pc.field("b") & (K > 19_990),
    pc.field("d") >= date(2052, 1, 1),
    pc.field("t") < datetime(1970, 1, 1, 0, 0, 30),
    pc.field("z") == pa.scalar(7000, pa.timestamp("ms", "UTC")),
    pc.field("n").is_valid() & (K < 25_003),
    pc.field("n").is_null() & (K > 24_990),
    K == -3,
    pc.field("z") == datetime(1970, 1, 1, 0, 0, 7, 5, tzinfo=UTC),
    K.isin([1, 2]),
    pc.field("two words") == 5,
    (K < 5) & (pc.field("n") + 1 == 5),
]
UNCLEAR = [
    pc.field("u") == 5,
    pc.field("g") == 0.1,
    pc.field("dec") == Decimal("5.00"),
    K + 1 == 5,
    K == 5.5,
]


@pytest.mark.parametrize("expression", KNOWN, ids=str)
def test_what_is_understood(expression: pc.Expression) -> None:
    assert implied_by(expression, TABLE.schema) is not None


@pytest.mark.parametrize("expression", UNCLEAR, ids=str)
def test_what_is_not(expression: pc.Expression) -> None:
    assert implied_by(expression, TABLE.schema) is None


def test_names_that_look_like_something_else() -> None:
    schema = pa.schema([("5", pa.int64()), ("true", pa.bool_()), ("and", pa.int64())])
    for expression in (pc.field("5") == 5, pc.field("true") == True, pc.field("and") > 1):  # noqa: E712
        implied = implied_by(expression, schema)
        batch = pa.record_batch([[5, 6], [True, False], [1, 2]], schema=schema)
        assert implied is not None
        assert implied.node.evaluate(batch).to_pylist() in ([True, False], [False, True])


async def test_rows_are_skipped_and_answers_the_same(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(TABLE, tmp_path / "t")
    for expression in [*KNOWN, *UNCLEAR, float("nan") == F]:
        table = await dataset.to_table(filter=expression, columns=["k"])
        plain = await dataset.to_table(filter=expression, columns=["k"], use_stats=False)
        assert table == plain, expression
    for expression in KNOWN:
        explanation = await dataset.scanner(filter=expression).explain()
        assert explanation.num_rows <= 2 * 8192, expression

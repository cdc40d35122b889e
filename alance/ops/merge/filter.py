"""The filter by which a merge on the primary key tells others which keys it inserts.

Two writers that both insert a key that is not there would leave it twice. So the transaction has a
filter of the inserted keys, and of two transactions whose filters have a bit in common the second
one is run again. Filters of other makers have other parameters and are not compared: then the
second one is run again in any case.
"""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.format.numbers import as_mask, as_numbers
from alance.format.proto import transaction_pb2
from alance.ops.merge.join import KEY, ROW
from alance.ops.merge.keys import Keys
from alance.ops.merge.plan import primary_key

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from alance.ops.merge.match import Found
    from alance.ops.merge.plan import Merge
    from alance.ops.merge.source import HeldSource

    Filter = transaction_pb2.Transaction.KeyExistenceFilter

# One bit a key: of two filters every bit in common counts. With 50 keys each, 4 % of pairs
# have one by chance; filters of more keys than MOST_KEYS have nearly always one.
NUM_BYTES: Final = 8 << 10
MOST_KEYS: Final = 4096
SEED: Final = 0x616C616E6365
# Names this kind of filter, so that those of other makers, or of other hashes, are not compared.
NUMBER_OF_ITEMS: Final = 1
PROBABILITY: Final = 0.5


async def inserted_keys(merge: Merge, source: HeldSource, found: Found) -> Filter | None:
    """The filter of the keys that a merge inserts; None: it is not by the primary key, or only
    deletes what matches.
    """
    key = primary_key(merge.schema)
    if not key or set(merge.on) != set(key) or merge.deletes_matches_alone:
        return None
    made = transaction_pb2.Transaction.KeyExistenceFilter()
    made.field_ids.extend(merge.schema.field(name).id for name in merge.on)
    bits = np.zeros(NUM_BYTES * 8, np.uint8)
    if merge.plan.inserts:
        if source.num_rows - int(np.count_nonzero(found.matched)) > MOST_KEYS:
            bits[:] = 1
        else:
            run = source.keys.scratch.pool.run
            async with aclosing(source.keys.batches()) as batches:
                async for batch in batches:
                    bits[await run(partial(_places, batch, found.matched))] = 1
    made.bloom.bitmap = np.packbits(bits, bitorder="little").tobytes()
    made.bloom.num_bits = len(bits)
    made.bloom.number_of_items = NUMBER_OF_ITEMS
    made.bloom.probability = PROBABILITY
    return made


def _places(batch: pa.RecordBatch, matched: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint64]:
    """The bits of the rows that are inserted. CPU."""
    keys = batch.column(KEY)
    new = ~matched[as_numbers(batch.column(ROW))]
    if keys.null_count:
        new &= as_mask(keys.is_valid())
    hashes = Keys(keys).plain().hashes(SEED)[new]
    return np.asarray(hashes % np.uint64(NUM_BYTES * 8))

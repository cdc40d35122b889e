"""Whether a store heeds the condition of a put-if-absent.

Some servers that speak a cloud's protocol know no conditions on writes and overwrite: two
committers would both be told that they won. Asked of each such store once in a process, by two
puts of one object.
"""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from alance.errors import AlanceError, UnsupportedError
from alance.io.background import DISCARD_S, grace_of
from alance.io.store import without_number
from alance.versioning.settle import Patience, Settled, put_settled

if TYPE_CHECKING:
    from alance.io.background import Background
    from alance.io.store import Store

PROBE: Final = ".probe-"

_answers: WeakKeyDictionary[Store, bool] = WeakKeyDictionary()


async def check_conditional_puts(
    store: Store, folder: str, background: Background, patience: Patience | None = None
) -> None:
    """Refuse a store that overwrites where it was asked to create.

    Cost: nothing on local files, in memory, and where GCS or Azure themselves answer; else, once
    for each store and process, two PUTs one after the other, and a DELETE.

    Args:
        folder: path inside the store of a folder for the probe, which is deleted again.
        background: has the removal of the probe where the caller is cancelled meanwhile.

    Raises:
        UnsupportedError: the store ignores the condition.
        StoreError: the probe could not be written.
        CommitStateUnknownError: the store did not answer.
    """
    if store.heeds_conditions():
        return
    heeds = _answers.get(store)
    if heeds is None:
        heeds = await _probe(store, folder, background, patience or Patience())
        _answers[store] = heeds
    if not heeds:
        raise UnsupportedError(
            f"{without_number(store.root)}: this store overwrites where it was asked to create an "
            f"object only if it is absent, so that concurrent commits would be lost; give a "
            f"commit_lock or an external manifest store (alance.check_store tells what else is "
            f"amiss)"
        )


async def _probe(store: Store, folder: str, background: Background, patience: Patience) -> bool:
    path = f"{folder}/{PROBE}{uuid.uuid4()}"
    first, second = b"first", b"second"

    async def put(body: bytes) -> Settled:
        async def whose() -> Settled:
            return Settled.OURS if await store.get(path) == body else Settled.THEIRS

        return await put_settled(
            lambda: store.put(path, body, if_absent=True), whose, store.root + path, patience
        )

    try:
        await put(first)
        return await put(second) is Settled.THEIRS
    finally:
        with contextlib.suppress(AlanceError):
            await background.finish(store.delete([path]), DISCARD_S, grace_of(store))

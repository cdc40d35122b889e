"""Walk over the folders of tables, by listing many of them with one request.

A store lists a thousand objects per page, in the order of their names. A page therefore covers
many small tables. When a page ends inside a table, the next page starts at the table after it. So a
page covers at least one table, however many objects the table has. If tables are large, a request
per table is cheaper than a page per table, and the walk ends.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from alance.base.records import dataclass
from alance.errors import NotFoundError
from alance.format.table.naming import VERSIONS, parse_manifest_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alance.io.stores.store import Store

DEREGISTERED: Final = ".lance-deregistered"  # object that hides the folder `name.lance`
PAGE_OBJECTS: Final = 1000  # objects per page of S3 and GCS; Azure has up to 5000
MIN_TABLES: Final = 5  # fewer tables are checked by concurrent requests, in one round
# Tables per page below which the walk ends: a LIST has the price of 12 HEADs.
MIN_TABLES_PER_PAGE: Final = 16
_VERSIONS: Final = VERSIONS + "/"
_AFTER_VERSIONS: Final = VERSIONS + "0"  # the character after `/`


@dataclass(frozen=True, slots=True)
class WalkedFolders:
    """State of folders, as far as a walk has reached them.

    Attributes:
        is_hidden: by folder, True if it has the object `.lance-deregistered`.
        has_version: by folder, True if it has the manifest of a version.
    """

    is_hidden: dict[str, bool]
    has_version: dict[str, bool]

    def _add(self, folder: str, name: str) -> None:
        """Add an object of a folder; the objects come in the order of their names."""
        if name >= DEREGISTERED:
            self.is_hidden.setdefault(folder, name == DEREGISTERED)
        if name.startswith(_VERSIONS):
            manifest = parse_manifest_name(name.removeprefix(_VERSIONS))
            if manifest is not None and not manifest.is_detached:
                self.has_version[folder] = True
        elif name >= _AFTER_VERSIONS:
            self._end_versions(folder)

    def _end_versions(self, folder: str) -> None:
        self.has_version.setdefault(folder, False)

    def _end(self, folder: str) -> None:
        self.is_hidden.setdefault(folder, False)
        self._end_versions(folder)

    async def _walk_page(self, store: Store, path: str, folders: list[str]) -> int:
        """Walk a page of objects, from the first folder on; return how many folders it passed.

        The state of the last passed folder may still be unknown.
        """
        prefix = f"{path}/" if path else ""
        count = position = 0
        listing = store.list(path, start_after=f"{prefix}{folders[0]}/")
        async with aclosing(listing) as objects:  # type: ignore[type-var]  # a generator
            async for entry in objects:
                folder, _, name = entry.path.removeprefix(prefix).partition("/")
                while position < len(folders) and folders[position] + "/" < folder + "/":
                    self._end(folders[position])
                    position += 1
                if position == len(folders):
                    return position
                if folders[position] == folder:
                    self._add(folder, name)
                count += 1
                if count == PAGE_OBJECTS:
                    return position + (folders[position] == folder)
        for folder in folders[position:]:
            self._end(folder)
        return len(folders)


async def walk_folders(store: Store, path: str, folders: Iterable[str]) -> WalkedFolders:
    """Walk over folders directly below a path, and return the state of those that are reached.

    The walk ends after a LIST that passes fewer than 16 folders. It reaches no folder if there are
    fewer than 5, or if the store is local or does not list by name.

    Cost: a LIST per thousand objects, but at most one per 16 folders, and one more.
    """
    walked = WalkedFolders({}, {})
    if not (store.profile.is_remote and store.profile.lists_in_order):
        return walked
    pending = sorted(set(folders), key=lambda folder: folder + "/")
    while len(pending) >= MIN_TABLES:
        try:
            num_passed = await walked._walk_page(store, path, pending)
        except NotFoundError:
            break
        pending = pending[num_passed:]
        if num_passed < MIN_TABLES_PER_PAGE:
            break
    return walked

"""Locations of a table's objects: in its folder, in its branches' folders, and below base paths.

A location is a store's root, followed by the path inside the store; see `io.opening.registry`.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from alance.base.records import dataclass
from alance.errors import (
    CorruptFileError,
    InvalidInputError,
    TableNotFoundError,
    UnsupportedError,
    VersionNotFoundError,
)
from alance.format.table.fragment import data_path, deletion_path, inside
from alance.format.table.naming import BRANCHES, DATA, INDICES, TAGS, TRANSACTIONS, VERSIONS
from alance.format.table.refs import branch_folder, check_branch_name, ref_file_name
from alance.io.opening.access import Access, own_options
from alance.io.opening.credentials import CREDENTIALS, as_mapping
from alance.io.stores.store import without_number
from alance.io.stores.uri import clean_path, join, parse_uri
from alance.versioning.keepers import is_dynamodb, keeper_of, open_dynamodb, without_endpoint

if TYPE_CHECKING:
    import os
    from datetime import datetime

    from alance.format.table.fragment import DataFile, DatasetBasePath, Fragment
    from alance.format.table.indices import Index
    from alance.format.table.manifest import Manifest
    from alance.io.opening.credentials import StorageOptions
    from alance.io.opening.registry import StoreRegistry
    from alance.io.stores.store import Store
    from alance.versioning.external_store import ExternalStore
    from alance.versioning.keepers import Keeper
    from alance.versioning.lock import CommitLock


@dataclass(frozen=True, slots=True)
class Table:
    """Table or branch of a table on a store. Immutable, except for the stores of opened bases.

    Attributes:
        main_uri: URI of the main branch's folder, as the user wrote it; without credentials.
        path: path of the main branch's folder inside the store.
        branch: name of the branch; None for main.
        access: storage options, by the URIs that they are for.
        keeper: external store or lock for the versions of all branches; None for conditional puts.
    """

    main_uri: str
    store: Store
    path: str
    branch: str | None
    registry: StoreRegistry
    access: Access
    keeper: Keeper | None = None
    _bases: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    _others: dict[str, Store] = field(default_factory=dict, compare=False, repr=False)

    @property
    def uri(self) -> str:
        """URI of this branch's folder, by which the branch can be opened."""
        if self.branch is None:
            return self.main_uri
        place, keeper = self._main_place()
        return f"{place.rstrip('/')}/{branch_folder(self.branch)}{keeper}"

    @property
    def is_remote(self) -> bool:
        """True if a request takes milliseconds, not microseconds."""
        return self.store.profile.is_remote

    @property
    def main_root(self) -> str:
        """Location of the main branch's folder, without a trailing `/`."""
        return self.store.root + self.path

    @property
    def root(self) -> str:
        """Location of this branch's folder, without a trailing `/`."""
        if self.branch is None:
            return self.main_root
        return self._in_main(branch_folder(self.branch))

    @property
    def key(self) -> str:
        """Path of this branch's folder inside the store, which is its key in an external store."""
        return self.root.removeprefix(self.store.root)

    @property
    def queue_key(self) -> str:
        """Key of this branch's commit queue: its location and the keeper's identity."""
        return self.root if self.keeper is None else f"{self.root}\n{self.keeper.identity}"

    @property
    def versions_folder(self) -> str:
        """Location of the folder of manifests."""
        return self._in_root(VERSIONS)

    @property
    def tags_folder(self) -> str:
        """Location of the folder of tags, in the main branch's folder."""
        return self._in_main(TAGS)

    @property
    def branches_folder(self) -> str:
        """Location of the folder of branch records, in the main branch's folder."""
        return self._in_main(BRANCHES)

    def manifest(self, name: str) -> str:
        return self._in_root(f"{VERSIONS}/{name}")

    def tag(self, name: str) -> str:
        return f"{self.tags_folder}/{ref_file_name(name)}"

    def branch_record(self, name: str) -> str:
        return f"{self.branches_folder}/{ref_file_name(name)}"

    def transaction(self, name: str) -> str:
        """Return the location of a transaction's file.

        Raises:
            CorruptFileError: the name leads out of its folder.
        """
        return self._in_root(f"{TRANSACTIONS}/{inside(name, 'transaction file')}")

    def on_branch(self, branch: str | None) -> Table:
        """Return the same table on another branch.

        Args:
            branch: name of the branch; None for main.

        Raises:
            InvalidInputError: the name is not a valid branch name.
        """
        if branch == self.branch:
            return self
        return replace(self, branch=None if branch is None else check_branch_name(branch))

    def seen_by(self, branch: str | None) -> Table:
        """Return the table as the branch `branch`, if its path is the folder of that branch.

        The result refers to the main table above that folder, with all tags and branches. Returns
        this table unchanged if its path is another folder, such as a copy of the branch.

        Args:
            branch: branch that the manifests name; None for main.
        """
        if self.branch is not None or branch is None:
            return self
        folder = "/" + branch_folder(branch)
        if not self.path.endswith(folder):
            return self
        path = self.path.removesuffix(folder)
        place, keeper = self._main_place()
        place = place.rstrip("/")
        if place.endswith(folder):
            place = place.removesuffix(folder)
        else:  # a relative URI such as "dev"
            place = self.store.uri_of(path) or path
        return replace(self, main_uri=f"{place}{keeper}", path=path, branch=branch)

    def _main_place(self) -> tuple[str, str]:
        """Split the main URI into the folder's URI and the query that names the DynamoDB table."""
        if not is_dynamodb(self.main_uri):
            return self.main_uri, ""
        place, mark, query = self.main_uri.partition("?")
        return place, mark + query

    def data_file(self, manifest: Manifest, file: DataFile) -> str:
        """Return the location of a data file.

        Raises:
            CorruptFileError: the path leads out of its folder, or its base is not in the manifest.
        """
        base = _base(manifest, file.base_id, f"data file {file.path!r}")
        return self._below(base, data_path(file, base))

    def new_data_file(self, name: str, base: DatasetBasePath | None = None) -> str:
        """Return the location for a new data file, in this folder or below a base path.

        Raises:
            AccessError: the table's credentials are not for this location.
        """
        folder = DATA if base is None or base.is_dataset_root else ""
        return self._below(base, join(folder, name))

    def folder_of(self, base: DatasetBasePath) -> str:
        """Return the location of a base path, without a trailing `/`.

        Errors are as for `new_data_file`.
        """
        return self._below(base, "").rstrip("/")

    def deletion_file(self, manifest: Manifest, fragment: Fragment) -> str:
        """Return the location of a fragment's deletion file.

        Raises:
            CorruptFileError: the file's base is not in the manifest.
        """
        assert fragment.deletion_file is not None
        what = f"deletion file of fragment {fragment.id}"
        base = _base(manifest, fragment.deletion_file.base_id, what)
        return self._below(base, deletion_path(fragment, base))

    def index_file(self, manifest: Manifest, index: Index, name: str) -> str:
        """Return the location of a file of an index.

        Raises:
            CorruptFileError: the name leads out of its folder, or the base is not in the manifest.
        """
        return self.index_folder(manifest, index) + inside(name, "index file")

    def index_folder(self, manifest: Manifest, index: Index) -> str:
        """Return the location of the folder of an index, with a trailing `/`.

        Raises:
            CorruptFileError: the base is not in the manifest.
        """
        message = index.message
        base_id = message.base_id if message.HasField("base_id") else None
        base = _base(manifest, base_id, f"index {index.name!r}")
        is_root = base is None or base.is_dataset_root
        return self._below(base, f"{INDICES}/{index.uuid}/" if is_root else "")

    def external(self, manifest: Manifest, uri: str, base_id: int) -> str:
        """Return the location of an object that a row refers to.

        Args:
            uri: absolute if `base_id` is 0, else a path below that base.
            base_id: id of a base path of the manifest, or 0.

        Raises:
            CorruptFileError: a relative path leads out of its base, or the base is unknown.
            AccessError: the table's credentials are not for this location.
            InvalidInputError, UnsupportedError: the scheme of the URI is unknown.
        """
        if base_id == 0:
            return self._open(uri, "object")
        base = _base(manifest, base_id, f"object {uri!r}")
        return self._below(base, inside(uri, "object"))

    def managed(self, manifest: Manifest, path: str, base_id: int | None) -> str:
        """Return the location of an object that has managed blobs of the table.

        Args:
            base_id: id of the base path that the path is below; None for the table's folder.

        Raises:
            CorruptFileError: the path leads out of its folder, or the base is not in the manifest.
        """
        base = _base(manifest, base_id, f"object {path!r}")
        return self._below(base, inside(path, "object"))

    def folder(self, path: str) -> str:
        """Return the location of a path below this branch's folder.

        Raises:
            CorruptFileError: the path leads out of the folder.
        """
        return self._in_root(inside(path, "object"))

    def opened(self, uri: str) -> str:
        """Return the location of an object that the caller names; opens its store if needed.

        Raises:
            AccessError: neither the options nor the environment have credentials for the account.
            InvalidInputError, UnsupportedError: the scheme of the URI is unknown.
        """
        return self._open(uri, "object", is_callers=True)

    def know_base(self, path: str, location: str) -> None:
        """Set the location of a base path.

        Args:
            location: location of the folder, in an open store.
        """
        self._bases[path] = location
        self._hold(self.registry.resolve(location)[0])

    def _hold(self, store: Store) -> Store:
        """Keep a store open during the lifetime of this table."""
        self._others[store.root] = store
        return store

    def not_there(self, why: str) -> TableNotFoundError:
        """Build the error for a table that does not exist."""
        return TableNotFoundError(f"{self._name}: {why}", self.uri)

    def lacks(self, version: int | str | datetime, what: str) -> VersionNotFoundError:
        """Build the error for a missing version, tag or branch."""
        return VersionNotFoundError(f"{self._name}: {what}", version)

    @property
    def _name(self) -> str:
        on = "" if self.branch is None else f", branch {self.branch!r}"
        return f"dataset {self.uri!r}{on}"

    def _in_main(self, path: str) -> str:
        return f"{self.store.root}{self.path}/{path}" if self.path else self.store.root + path

    def _in_root(self, path: str) -> str:
        if self.branch is None:
            return self._in_main(path)
        return self._in_main(join(branch_folder(self.branch), path))

    def _below(self, base: DatasetBasePath | None, path: str) -> str:
        if base is None:
            return self._in_root(path)
        root = self._bases.get(base.path)
        if root is None:
            try:
                root = self._bases[base.path] = self._open(base.path, "base path")
            except InvalidInputError as error:
                raise CorruptFileError(f"base path {base.path!r}: {error}") from error
        return root + path if root.endswith("/") else f"{root}/{path}"

    def _open(self, uri: str, what: str, *, is_callers: bool = False) -> str:
        """Return the location of a URI; use the table's own store if it has the same root."""
        address = parse_uri(uri)
        if address.root == without_number(self.store.root):
            return self.store.root + address.path
        where = f"{what} {uri!r} of dataset {self.uri!r}"
        options = self.access.options(uri, address, where, is_callers=is_callers)
        store, path = self.registry.open(address, storage_options=without_endpoint(options))
        return self._hold(store).root + path


def open_table(
    registry: StoreRegistry,
    uri: str | os.PathLike[str],
    *,
    store: object | None = None,
    storage_options: StorageOptions | None = None,
    manifest_store: ExternalStore | None = None,
    commit_lock: CommitLock | None = None,
) -> Table:
    """Open the table at a URI. Sends no request.

    Args:
        uri: URI or path of the table. `s3+ddb://bucket/path?ddbTableName=table` for versions in
            DynamoDB.
        storage_options: options of the store; see `io.opening.credentials` for providers of
            credentials.
        manifest_store: external store for the versions; None for no external store.
        commit_lock: lock to hold while a version is made; None for no lock.

    Raises:
        InvalidInputError: the URI, an option or the store is wrong.
        UnsupportedError: the scheme is not supported, or versions in DynamoDB with a provider of
            credentials.
    """
    keeper = keeper_of(manifest_store, commit_lock)
    mapping = as_mapping(storage_options)
    own = own_options(mapping)
    place, options = uri, without_endpoint(own)
    if isinstance(uri, str) and is_dynamodb(uri):
        if keeper is not None or store is not None:
            raise InvalidInputError(
                f"uri {uri!r}: names its own store; expected no store, manifest_store, commit_lock"
            )
        if own and CREDENTIALS in own:
            raise UnsupportedError(
                f"uri {uri!r}: DynamoDB takes no {CREDENTIALS!r}; expected those of the environment"
            )
        place, keeper = open_dynamodb(uri, own)
    home = None if store is not None else parse_uri(place)
    opened, path = registry.open(home or place, storage_options=options, store=store)
    access = Access.to(opened, home, mapping)
    return Table(str(uri), opened, clean_path(path), None, registry, access, keeper)


def _base(manifest: Manifest, base_id: int | None, what: str) -> DatasetBasePath | None:
    if base_id is None:
        return None
    base = manifest.base_paths.get(base_id)
    if base is None:
        raise CorruptFileError(f"{what}: base path {base_id} is not in the manifest")
    return base

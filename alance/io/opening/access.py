"""Storage options for the places that a table names: its base paths, and blobs elsewhere.

Anybody who can write to a table can make its manifests and rows name any place. So the options of a
table are used only within their *scope*:

| table on | scope |
|---|---|
| S3, GCS, `S3_CLOUDS` | all buckets of the same endpoint: keys go to that server alone |
| Azure | all containers of the same account |
| HTTP | the same scheme, host and port |
| the Hub | all datasets of the same Hub |
| local disk, memory | this machine: neither needs credentials |

Any other place needs an entry of its own among the options, `base:<uri>`, which applies at and
below the URI. The keys are URIs from the caller. Ids and names of base paths come from the
manifest, so they cannot be keys.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Final

from alance.base.records import dataclass
from alance.errors import AccessError, InvalidInputError
from alance.io.opening.credentials import as_mapping, is_provider
from alance.io.opening.options import BASE_PREFIX, CHOOSER, parse_options
from alance.io.stores.s3_clouds import S3_CLOUDS
from alance.io.stores.uri import Address, parse_uri

if TYPE_CHECKING:
    from alance.io.stores.profile import Kind
    from alance.io.stores.store import Store

# Names without characters that could change the host or path of a URL.
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._-]*")
_LOCAL_KINDS: Final = frozenset({"local", "memory"})


@dataclass(frozen=True, slots=True)
class Access:
    """The options that a table was opened with, sorted by place.

    Attributes:
        kind: kind of the table's store.
        home: address of the table; None if the table was opened in a store object of the caller.
        storage_options: all options of the caller.
        own: options of the table's own store; None if there are none.
    """

    kind: Kind
    home: Address | None
    storage_options: Mapping[str, object] | None = field(repr=False)
    own: Mapping[str, object] | None = field(repr=False)
    _entries: tuple[tuple[Address, Mapping[str, object]], ...] = field(repr=False)
    _choose: Callable[[str], object] | None

    @classmethod
    def of(
        cls, kind: Kind, home: Address | None, storage_options: Mapping[str, object] | None
    ) -> Access:
        """Sort the options by place.

        Raises:
            InvalidInputError: an entry for another place is malformed.
        """
        if not storage_options:
            return cls(kind, home, storage_options, None, (), None)
        entries = []
        choose: Callable[[str], object] | None = None
        for key, value in storage_options.items():
            if key == CHOOSER:
                if not callable(value):
                    raise InvalidInputError(
                        f"storage option {key!r}: expected a function of the URI that gives "
                        f"options or None, found {type(value).__name__}"
                    )
                choose = value
            elif is_for_base(key):
                place = _place(key)
                entries.append((place, _checked(key, place, value)))
        return cls(
            kind, home, storage_options, own_options(storage_options), tuple(entries), choose
        )

    @classmethod
    def to(
        cls, store: Store, home: Address | None, storage_options: Mapping[str, object] | None
    ) -> Access:
        """Sort the options of a table on `store`; see `of` for errors."""
        return cls.of(store.profile.kind, home, storage_options)

    def others(self) -> dict[str, object] | None:
        """Return the entries `base:<uri>` of the storage options; None if there are none."""
        return {
            key: value for key, value in (self.storage_options or {}).items() if is_for_base(key)
        } or None

    def covers(self, address: Address) -> bool:
        """Return True if a place is in the scope of the table's own options; see the module
        docstring.
        """
        if self.kind in _LOCAL_KINDS:
            return address.kind in _LOCAL_KINDS
        if self.home is None or address.kind != self.kind:
            return False
        if self.kind == "http":
            return address.root.lower() == self.home.root.lower()
        if not _PLAIN_NAME.fullmatch(address.container):
            return False
        return self.kind != "azure" or address.account.lower() in ("", self._account().lower())

    def options(
        self, uri: str, address: Address, what: str, *, is_callers: bool = False
    ) -> Mapping[str, object] | None:
        """Return the options for a place; None to use the environment alone.

        Args:
            uri: the URI by which the place was named.
            what: description of the place for the error message: base path or object, and table.
            is_callers: True if the caller, not the table, named the place: credentials of the
                environment may be sent there.

        Raises:
            AccessError: the place is outside of the scope, and has no entry.
            InvalidInputError: the caller's function does not return options.
        """
        entry = self._entry(uri, address)
        if entry is not None:
            return entry
        if self.covers(address):
            if address.kind == "azure" and not address.account and self._account():
                return {**(self.own or {}), "account_name": self._account()}
            return self.own
        if is_callers and self._is_of_environment(address):
            return None
        shown = uri if "://" in uri else f"{address.root}{address.path}"
        example = f"storage_options={{{BASE_PREFIX + shown!r}: {{...}}}}"
        if address.kind in _LOCAL_KINDS:
            raise AccessError(
                f"{what}: a place on this machine, which a table elsewhere may not name; to read "
                f"it all the same, pass {example.replace('...', '')}"
            )
        raise AccessError(
            f"{what}: outside the scope of the table's storage options ({self._scope()}), so "
            f"nothing is sent there; pass options for this place, {example}; an empty dict uses "
            f"the credentials of the environment"
        )

    def _entry(self, uri: str, address: Address) -> Mapping[str, object] | None:
        """Return the caller's options for a place.

        They are the longest matching entry or, if none matches, the result of the caller's
        function. Returns None if neither has options.
        """
        fitting = [
            (len(place.path), options)
            for place, options in self._entries
            if place.root == address.root and _is_below(address.path, place.path)
        ]
        if fitting:
            return max(fitting, key=lambda pair: pair[0])[1]
        if self._choose is None:
            return None
        chosen = self._choose(uri)
        return None if chosen is None else _checked(CHOOSER, address, chosen)

    def _account(self) -> str:
        """Azure account from the store's options, the URI or the environment; empty if unknown."""
        named = dict(parse_options("azure", self.own).config).get("account_name")
        assert self.home is not None
        return named or self.home.account or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", "")

    def _is_of_environment(self, address: Address) -> bool:
        """Return True if credentials of the environment may be sent to the server of a place."""
        if address.kind != "azure":
            return address.kind in {*_LOCAL_KINDS, "http"} or bool(
                _PLAIN_NAME.fullmatch(address.container)
            )
        account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME", "")
        return address.account.lower() in ("", account.lower())

    def _scope(self) -> str:
        if self.home is None:
            return "the given store object"
        match self.kind:
            case kind if kind in {"s3", "gcs", *S3_CLOUDS}:
                return f"buckets of the same {self.kind} endpoint"
            case "azure":
                return f"containers of the account {self._account() or 'of the environment'!r}"
            case "http":
                return self.home.root
            case "hf":
                return "datasets of the same Hub"
        return "this machine"


def is_for_base(key: object) -> bool:
    """Return True if a storage option is for another place than the table's own store.

    Args:
        key: name of the option.
    """
    return isinstance(key, str) and key.startswith(BASE_PREFIX)


def own_options(storage_options: Mapping[str, object] | None) -> Mapping[str, object] | None:
    """Return the options of a table's own store; None if there are none."""
    if not storage_options:
        return None
    return {key: value for key, value in storage_options.items() if not is_for_base(key)} or None


def _place(key: str) -> Address:
    uri = key[len(BASE_PREFIX) :]
    if "://" not in uri and not uri.startswith("/"):
        raise InvalidInputError(
            f"storage option {key!r}: expected a URI or an absolute path behind {BASE_PREFIX!r}"
        )
    return parse_uri(uri)


def _is_below(path: str, top: str) -> bool:
    return not top or path == top or path.startswith(top + "/")


def _checked(key: str, place: Address, value: object) -> Mapping[str, object]:
    """Convert the options of a place to a mapping, and check them.

    They are a mapping, a provider, or JSON text for engines that pass only text.

    Raises:
        InvalidInputError: the value is none of these, or has an option that is wrong for the kind
            of store. The message shows no value.
    """
    options = value
    if isinstance(value, str):
        try:
            options = json.loads(value or "{}")
        except ValueError:
            options = None
    elif is_provider(value):
        options = as_mapping(value)
    if not isinstance(options, Mapping) or any(is_for_base(name) for name in options):
        raise InvalidInputError(
            f"storage option {key!r}: expected options of that place, a dict or a JSON object, "
            f"found {type(value).__name__}"
        )
    parse_options(place.kind, options)
    return options

"""Parsing of URIs and paths of datasets."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from alance.errors import InvalidInputError, UnsupportedError
from alance.io.stores.s3_clouds import S3_CLOUDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from alance.io.stores.profile import Kind


class Address(NamedTuple):
    """The place of a dataset: a store and a path.

    Attributes:
        kind: the kind of the store.
        root: root of the store, ends in "/"; a location is a root followed by a path.
        path: path inside the store, without `/` at either end; empty for the store's root.
        container: bucket, container or name of a memory store; `datasets` of the Hub; empty for
            local files and HTTP.
        account: the storage account that an Azure URI names; empty if it names none.
    """

    kind: Kind
    root: str
    path: str
    container: str = ""
    account: str = ""


def parse_uri(uri: str | os.PathLike[str]) -> Address:
    """Parse a URI or a plain local path; docs/stores.md lists the schemes.

    `%20` in a URI is a space, as in Lance and obstore; plain paths are literal.

    Raises:
        InvalidInputError: the URI is malformed, or its scheme is unknown.
        UnsupportedError: the scheme, `s3+ddb`, is only for tables.
    """
    try:
        text = os.fspath(uri)
    except TypeError:
        text = None
    if not isinstance(text, str):
        swapped = "; do data and uri stand in each other's place?" * hasattr(uri, "__len__")
        raise InvalidInputError(f"uri: got {type(uri).__name__}, expected text or a path{swapped}")
    if "\0" in text:
        raise InvalidInputError(f"uri {text!r}: contains a zero byte")
    scheme, mark, rest = text.partition("://")
    if not mark:
        return _local(text)
    scheme = scheme.lower()
    if scheme in _REFUSED:
        raise UnsupportedError(f"uri {text!r}: {_REFUSED[scheme]}")
    if scheme not in _PARSERS:
        raise InvalidInputError(
            f"uri {text!r}: scheme {scheme!r} is not known; expected one of {', '.join(_PARSERS)}, "
            f"or a local path"
        )
    address = _PARSERS[scheme](scheme, rest)
    if mark := min(set(rest) & _MARKS, key=rest.index, default=""):
        raise InvalidInputError(
            f"uri '{scheme}://{rest.partition(mark)[0]}{mark}…': {mark!r} would begin a "
            f"{_MARK_NAMES[mark]}, which pylance ignores; as part of a name, write "
            f"%{ord(mark):X}"
        )
    return address


def quoted(path: str) -> str:
    """Quote the characters of a path that a URI reads as others."""
    return path.replace("%", "%25").replace("#", "%23").replace("?", "%3F")


def kind_at(location: str) -> Kind | None:
    """Return the kind of the store of a location; None if its scheme is unknown."""
    scheme, _, rest = location.partition("://")
    parse = _PARSERS.get(scheme)
    return None if parse is None else parse(scheme, rest.partition("/")[0] + "/").kind


def join(*segments: str) -> str:
    """Join the segments that are not empty to a path."""
    return "/".join([*filter(None, segments)])


def clean_path(path: str) -> str:
    """Return a path inside a store, without `/` at its ends.

    Raises:
        InvalidInputError: the path is not text, or has a segment that no store can address: empty,
            `.`, `..` or with a null.
    """
    if not isinstance(path, str) or "\0" in path:
        raise InvalidInputError(f"path {path!r}: expected text without nulls")
    inside = path.strip("/")
    if inside and not {"", ".", ".."}.isdisjoint(inside.split("/")):
        raise InvalidInputError(f"path {path!r}: an empty segment, '.' or '..' is not possible")
    return inside


def _local(path: str) -> Address:
    """Return the address of a local path, which may be relative or begin with `~`."""
    is_fixed = path.startswith("/") and os.sep == "/"  # else it depends on folder or drive
    return _fixed(path) if is_fixed else _resolved(path)


def _resolved(path: str) -> Address:
    if not path:
        raise InvalidInputError("uri '': empty")
    if "\0" in path:
        raise InvalidInputError(f"uri {path!r}: expected text without nulls")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise InvalidInputError(f"uri {path!r}: no file has such a name") from None
    try:
        place = os.path.abspath(os.path.expanduser(path))
    except FileNotFoundError:
        raise InvalidInputError(f"uri {path!r}: the working directory is gone") from None
    return Address("local", "file:///", place.lstrip("/"))


_fixed: Final = lru_cache(maxsize=256)(_resolved)


def _file(scheme: str, rest: str) -> Address:
    host, slash, path = rest.partition("/")
    if host not in ("", "localhost") or not slash:
        raise InvalidInputError(f"uri '{scheme}://{rest}': expected file:/// and an absolute path")
    return _local("/" + unquote(path))


def _memory(scheme: str, rest: str) -> Address:
    name, _, path = rest.partition("/")
    return Address("memory", f"memory://{name}/", clean_path(unquote(path)), name)


def _bucket(kind: Kind) -> Callable[[str, str], Address]:
    def parse(scheme: str, rest: str) -> Address:
        bucket, _, path = rest.partition("/")
        if not bucket or "@" in bucket:
            raise InvalidInputError(f"uri '{scheme}://…': expected a bucket after {scheme}://")
        shown = "s3" if kind == "s3" else scheme
        return Address(kind, f"{shown}://{bucket}/", clean_path(unquote(path)), bucket)

    return parse


def _azure(scheme: str, rest: str) -> Address:
    authority, _, path = rest.partition("/")
    container, mark, host = authority.partition("@")
    account = host.partition(".")[0]
    if not container or (mark and not account):
        raise InvalidInputError(
            f"uri '{scheme}://{rest}': expected {scheme}://container/path or "
            f"{scheme}://container@account.dfs.core.windows.net/path"
        )
    inside = clean_path(unquote(path))
    return Address("azure", f"{scheme}://{authority}/", inside, container, account)


def _http(scheme: str, rest: str) -> Address:
    parts = urlsplit(f"{scheme}://{rest}")
    # Locations appear in messages and traces, so they must not contain secrets.
    if "@" in parts.netloc:
        raise InvalidInputError(
            f"uri '{scheme}://…@{parts.hostname}': no user name or password, please; send them "
            f"as storage option 'default_headers'"
        )
    if not parts.hostname or parts.query or parts.fragment:
        raise InvalidInputError(
            f"uri '{scheme}://{parts.netloc}{parts.path}…': expected a host and a path, no query"
        )
    return Address("http", f"{scheme}://{parts.netloc}/", clean_path(unquote(parts.path)))


def _hub(scheme: str, rest: str) -> Address:
    kind, _, path = rest.partition("/")
    parts = path.strip("/").split("/")
    if kind != "datasets" or (path and len(parts) < 2):
        raise InvalidInputError(
            f"uri '{scheme}://{rest}': expected {scheme}://datasets/OWNER/NAME[@REVISION]/path; "
            f"to read from another repository, pass store=huggingface_hub.HfFileSystem()"
        )
    # The Hub's file system unquotes a revision, as only it knows which may contain `/`.
    inside = [part if place == 1 else unquote(part) for place, part in enumerate(parts)]
    return Address("hf", f"{scheme}://{kind}/", clean_path("/".join(inside)), kind)


_PARSERS: Final[Mapping[str, Callable[[str, str], Address]]] = {
    "s3": _bucket("s3"),
    "s3a": _bucket("s3"),
    "gs": _bucket("gcs"),
    **{kind: _bucket(kind) for kind in S3_CLOUDS},
    "az": _azure,
    "abfs": _azure,
    "abfss": _azure,
    "http": _http,
    "https": _http,
    "hf": _hub,
    "file": _file,
    "memory": _memory,
}

_MARK_NAMES: Final = {"#": "fragment", "?": "query"}
_MARKS: Final = frozenset(_MARK_NAMES)

_REFUSED: Final = {
    "s3+ddb": "names a table whose versions are in DynamoDB; expected the s3:// URI of its folder"
}

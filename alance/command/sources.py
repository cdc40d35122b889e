"""Places of files to import: local paths, object stores and web servers; folders and patterns."""

from __future__ import annotations

import glob
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from alance import InvalidInputError
from alance.base.extras import missing
from alance.command.lakes import refuse_lake

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyarrow import fs

SCHEMES: Final = ("s3", "gs", "az", "abfs", "abfss", "https", "http", "memory")
CLIENT_OPTIONS: Final = frozenset({"allow_http", "proxy_url", "timeout", "connect_timeout"})


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to import.

    Attributes:
        path: path inside the file system.
        files: pyarrow's file system.
        name: the path or URI for messages.
    """

    path: str
    files: fs.FileSystem
    name: str

    @property
    def folders(self) -> Iterator[str]:
        """Names of the folders above the file, from the innermost."""
        path = PurePosixPath(self.path)
        return (folder.name for folder in path.parents)

    @property
    def ending(self) -> str:
        """Suffix of the file's name, in lower case."""
        return PurePosixPath(self.path).suffix.lower()


def source_files(text: str, storage: Mapping[str, str]) -> list[SourceFile]:
    """Return the files that a path or URI names: a file, all in a folder, or matches of a pattern.

    Hidden files are omitted, except a file that is named itself. A shell expands patterns
    itself, unless they are in quotes.

    Args:
        storage: options of the store of a URI.

    Raises:
        InvalidInputError: there is no such file, nothing matches, or the scheme is unknown.
        MissingPackageError: a URI needs fsspec.
    """
    scheme, mark, _ = text.partition("://")
    if mark and scheme != "file":
        return _remote(text, scheme, storage)
    text = text.removeprefix("file://")
    if not glob.has_magic(text) or Path(text).exists():
        if not Path(text).exists():
            raise InvalidInputError(f"{text}: no such file; the table comes before the files")
        paths = [Path(text)]
    else:
        paths = _matching([Path(path) for path in glob.glob(text, recursive=True)], text)
    return [file for path in paths for file in _local(path)]


def _matching(paths: list[Path], text: str) -> list[Path]:
    """Sort the matches of a pattern, without those that are inside other matches.

    Raises:
        InvalidInputError: there is no match.
    """
    whole = {path for path in paths if path.is_dir()}
    chosen = [
        path for path in paths if not _is_hidden(path.name) and whole.isdisjoint(path.parents)
    ]
    if not chosen:
        raise InvalidInputError(f"{text}: no file matches; `**` stands for folders of any depth")
    return sorted(chosen)


def _is_hidden(name: str) -> bool:
    """True for names of files and folders without data; `_year=2024` is a partition, though."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _local(path: Path) -> list[SourceFile]:
    """Return a file, or the files below a folder by name; hidden files are omitted.

    Raises:
        InvalidInputError: a folder is a Delta table.
    """
    from pyarrow import fs

    if not path.is_dir():
        return [SourceFile(path.absolute().as_posix(), fs.LocalFileSystem(), str(path))]
    children = list(path.iterdir())
    refuse_lake(str(path), [f"/{child.name}/" for child in children])
    below = sorted(child for child in children if not _is_hidden(child.name))
    return [file for child in below for file in _local(child)]


def _remote(text: str, scheme: str, storage: Mapping[str, str]) -> list[SourceFile]:
    if scheme not in SCHEMES:
        schemes = ", ".join(f"{name}://" for name in SCHEMES[:-1])
        raise InvalidInputError(f"{text}: scheme {scheme!r}; expected a path, or one of {schemes}")
    try:
        from obstore.fsspec import FsspecStore
    except ImportError as error:
        raise missing(f"{scheme}:// as a source of files needs fsspec", "cli") from error
    from pyarrow import fs

    config: dict[str, Any] = {k: v for k, v in storage.items() if k not in CLIENT_OPTIONS}
    client: dict[str, Any] = {k: v for k, v in storage.items() if k in CLIENT_OPTIONS}
    if scheme == "http":
        client["allow_http"] = "true"
    open_store: Any = FsspecStore  # its overloads accept only a literal scheme
    store = open_store(scheme, config=config or None, client_options=client or None)
    files = fs.PyFileSystem(fs.FSSpecHandler(store))
    return [
        SourceFile(path, files, f"{scheme}://{path}") for path in _remote_paths(store, text, scheme)
    ]


def _remote_paths(store: Any, text: str, scheme: str) -> list[str]:
    """Return the paths of the files that a URI names.

    Raises:
        InvalidInputError: the store has no such file, or failed; or the files are those of a
            Delta or Iceberg table.
    """
    inside = text.partition("://")[2].rstrip("/")
    try:
        if scheme in ("http", "https"):  # web servers do not list
            return [inside]
        if glob.has_magic(inside):
            paths = [path for path in store.glob(inside) if not store.isdir(path)]
        else:
            paths = store.find(inside)
    except OSError as error:
        raise InvalidInputError(f"{text}: {error}") from error
    except Exception as error:  # obstore's own errors
        raise InvalidInputError(f"{text}: {type(error).__name__}: {error}") from error
    refuse_lake(text, paths)
    start = len(PurePosixPath(inside.partition("*")[0]).parts)
    shown = [
        path
        for path in paths
        if not any(_is_hidden(part) for part in PurePosixPath(path).parts[start:])
    ]
    if not shown:
        raise InvalidInputError(f"{text}: no such file, or no file below it")
    return sorted(shown)

"""Two ways to change a table, with the same verbs: alance and pylance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import lance

import alance

if TYPE_CHECKING:
    from asyncio import Runner
    from collections.abc import Awaitable, Callable

    import pyarrow as pa

    from alance.datasets import Dataset

SMALL = 40  # rows of a fragment that compaction aims at


class Writer(Protocol):
    """Steps of the machine, each a change of a table's latest version."""

    def append(self, rows: pa.Table) -> None: ...
    def overwrite(self, rows: pa.Table) -> None: ...
    def delete(self, predicate: str) -> None: ...
    def update(self, updates: dict[str, str], where: str | None) -> None: ...
    def merge(self, rows: pa.Table, verb: str) -> None: ...
    def add_column(self, name: str, expression: str) -> None: ...
    def rename(self, name: str, to: str) -> None: ...
    def drop(self, name: str) -> None: ...
    def compact(self) -> None: ...
    def restore(self, version: int) -> None: ...
    def tag(self, name: str, version: int) -> None: ...


class Ours:
    """alance, on the loop of a runner."""

    def __init__(self, runner: Runner, session: alance.Session, uri: str, options: Any) -> None:
        self._runner, self._session, self._uri, self._options = runner, session, uri, options

    def _do(self, work: Callable[[Dataset], Awaitable[object]]) -> None:
        async def run() -> None:
            dataset = await alance.dataset(
                self._uri, session=self._session, storage_options=self._options
            )
            await work(dataset)

        self._runner.run(run())

    def append(self, rows: pa.Table) -> None:
        self._do(lambda dataset: dataset.insert(rows, max_rows_per_file=SMALL // 3))

    def overwrite(self, rows: pa.Table) -> None:
        self._do(lambda dataset: dataset.insert(rows, mode="overwrite"))

    def delete(self, predicate: str) -> None:
        self._do(lambda dataset: dataset.delete(predicate))

    def update(self, updates: dict[str, str], where: str | None) -> None:
        self._do(lambda dataset: dataset.update(updates, where=where))

    def merge(self, rows: pa.Table, verb: str) -> None:
        self._do(lambda dataset: clauses(dataset.merge_insert("key"), verb).execute(rows))

    def add_column(self, name: str, expression: str) -> None:
        self._do(lambda dataset: dataset.add_columns({name: expression}))

    def rename(self, name: str, to: str) -> None:
        self._do(lambda dataset: dataset.alter_columns({"path": name, "name": to}))

    def drop(self, name: str) -> None:
        self._do(lambda dataset: dataset.drop_columns([name]))

    def compact(self) -> None:
        self._do(
            lambda dataset: dataset.optimize.compact_files(
                target_rows_per_fragment=SMALL, materialize_deletions_threshold=0.0
            )
        )

    def restore(self, version: int) -> None:
        self._do(lambda dataset: dataset.restore(version))

    def tag(self, name: str, version: int) -> None:
        self._do(lambda dataset: dataset.tags.create(name, version))


class Theirs:
    """pylance."""

    def __init__(self, uri: str, options: Any) -> None:
        self._uri, self._options = uri, options

    def _open(self) -> lance.LanceDataset:
        return lance.dataset(self._uri, storage_options=self._options)

    def append(self, rows: pa.Table) -> None:
        lance.write_dataset(rows, self._uri, mode="append", storage_options=self._options)

    def overwrite(self, rows: pa.Table) -> None:
        lance.write_dataset(rows, self._uri, mode="overwrite", storage_options=self._options)

    def delete(self, predicate: str) -> None:
        self._open().delete(predicate)

    def update(self, updates: dict[str, str], where: str | None) -> None:
        self._open().update(updates, where=where)

    def merge(self, rows: pa.Table, verb: str) -> None:
        clauses(self._open().merge_insert("key"), verb).execute(rows)

    def add_column(self, name: str, expression: str) -> None:
        self._open().add_columns({name: expression})

    def rename(self, name: str, to: str) -> None:
        self._open().alter_columns({"path": name, "name": to})

    def drop(self, name: str) -> None:
        self._open().drop_columns([name])

    def compact(self) -> None:
        self._open().optimize.compact_files(
            target_rows_per_fragment=SMALL, materialize_deletions_threshold=0.0
        )

    def restore(self, version: int) -> None:
        lance.dataset(self._uri, version=version, storage_options=self._options).restore()

    def tag(self, name: str, version: int) -> None:
        self._open().tags.create(name, version)


def clauses(builder: Any, verb: str) -> Any:
    """The clauses of a merge by its name."""
    if verb in ("upsert", "update", "replace"):
        builder = builder.when_matched_update_all()
    if verb in ("upsert", "insert", "replace"):
        builder = builder.when_not_matched_insert_all()
    if verb == "replace":
        builder = builder.when_not_matched_by_source_delete("value < 0")
    return builder

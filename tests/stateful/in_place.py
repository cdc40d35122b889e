"""Changes of columns in place, by alance and by pylance, behind one interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance

import alance
from alance import operations

if TYPE_CHECKING:
    from asyncio import Runner
    from collections.abc import Awaitable, Callable

    import pyarrow as pa

    from alance import Dataset

KEY = "key"


class OurChanges:
    """Changes by alance, on the event loop of a runner."""

    def __init__(self, runner: Runner, session: alance.Session, uri: str) -> None:
        self._runner, self._session, self._uri = runner, session, uri

    def do(self, work: Callable[[Dataset], Awaitable[Any]]) -> Any:
        """Run work on the latest version, and return its result."""

        async def run() -> Any:
            return await work(await alance.dataset(self._uri, session=self._session))

        return self._runner.run(run())

    def merge(self, rows: pa.Table) -> None:
        """Merge new values of some columns into the rows with the same keys."""

        async def work(dataset: Dataset) -> None:
            merge = dataset.merge_insert(KEY).when_matched_update_all()
            await merge.write_mode("rewrite_columns").execute(rows)

        self.do(work)

    def update_fragment(self, fragment: int, rows: pa.Table) -> None:
        """Change columns of one fragment, as workers of a distributed job do."""

        async def work(dataset: Dataset) -> None:
            record, fields, offsets = await dataset.fragment(fragment).update_columns(rows, KEY)
            update = operations.Update(
                updated_fragments=(record,),
                fields_modified=fields,
                update_mode=1,
                updated_fragment_offset_bitmaps={fragment: offsets},
            )
            await alance.commit(dataset, update)

        self.do(work)

    def replace_file(self, fragment: int, values: pa.Table) -> None:
        """Replace the data file of a column in one fragment; it holds no other column."""

        async def work(dataset: Dataset) -> None:
            group = await dataset.fragment(fragment).replace_columns(values)
            await alance.commit(dataset, operations.DataReplacement((group,)))

        self.do(work)

    def append(self, rows: pa.Table) -> None:
        self.do(lambda dataset: dataset.insert(rows))

    def delete(self, predicate: str) -> None:
        self.do(lambda dataset: dataset.delete(predicate))

    def update(self, updates: dict[str, str], where: str) -> None:
        self.do(lambda dataset: dataset.update(updates, where=where))

    def add_column(self, name: str, expression: str) -> None:
        self.do(lambda dataset: dataset.add_columns({name: expression}))

    def drop_column(self, name: str) -> None:
        self.do(lambda dataset: dataset.drop_columns([name]))

    def cast(self, name: str, type_: pa.DataType) -> None:
        self.do(lambda dataset: dataset.alter_columns({"path": name, "data_type": type_}))

    def index(self, column: str, kind: str, options: dict[str, Any]) -> None:
        self.do(lambda dataset: dataset.create_index(column, kind, **options))

    def index_values(self, column: str, kind: str, options: dict[str, Any]) -> None:
        self.do(lambda dataset: dataset.create_scalar_index(column, kind, **options))

    def drop_index(self, name: str) -> None:
        self.do(lambda dataset: dataset.drop_index(name))

    def optimize(self, options: dict[str, Any]) -> None:
        self.do(lambda dataset: dataset.optimize.optimize_indices(**options))

    def compact(self, options: dict[str, Any]) -> None:
        self.do(lambda dataset: dataset.optimize.compact_files(**options))


class TheirChanges:
    """Changes by pylance."""

    def __init__(self, uri: str, ours: OurChanges) -> None:
        self._uri, self._ours = uri, ours

    def _commit(self, change: Any, version: int) -> None:
        lance.LanceDataset.commit(self._uri, change, read_version=version)

    def merge(self, rows: pa.Table) -> None:
        lance.dataset(self._uri).merge_insert(KEY).when_matched_update_all().execute(rows)

    def update_fragment(self, fragment: int, rows: pa.Table) -> None:
        dataset = lance.dataset(self._uri)
        record, fields = dataset.get_fragment(fragment).update_columns(rows, KEY, KEY)
        change = lance.LanceOperation.Update(
            updated_fragments=[record], fields_modified=fields, update_mode="rewrite_columns"
        )
        self._commit(change, dataset.version)

    def replace_file(self, fragment: int, values: pa.Table) -> None:
        async def work(dataset: Dataset) -> Any:
            return (await dataset.fragment(fragment).replace_columns(values)).new_file

        file = self._ours.do(work)
        theirs = lance.fragment.DataFile(
            file.path,
            list(file.fields),
            list(file.column_indices),
            file.file_major_version,
            file.file_minor_version,
            file.file_size_bytes,
        )
        group = lance.LanceOperation.DataReplacementGroup(fragment, theirs)
        change = lance.LanceOperation.DataReplacement([group])
        self._commit(change, lance.dataset(self._uri).version)

    def append(self, rows: pa.Table) -> None:
        lance.write_dataset(rows, self._uri, mode="append")

    def delete(self, predicate: str) -> None:
        lance.dataset(self._uri).delete(predicate)

    def update(self, updates: dict[str, str], where: str) -> None:
        lance.dataset(self._uri).update(updates, where=where)

    def add_column(self, name: str, expression: str) -> None:
        lance.dataset(self._uri).add_columns({name: expression})

    def drop_column(self, name: str) -> None:
        lance.dataset(self._uri).drop_columns([name])

    def cast(self, name: str, type_: pa.DataType) -> None:
        lance.dataset(self._uri).alter_columns({"path": name, "data_type": type_})

    def index(self, column: str, kind: str, options: dict[str, Any]) -> None:
        lance.dataset(self._uri).create_index(column, kind, **options)

    def index_values(self, column: str, kind: str, options: dict[str, Any]) -> None:
        lance.dataset(self._uri).create_scalar_index(column, kind, **options)

    def drop_index(self, name: str) -> None:
        lance.dataset(self._uri).drop_index(name)

    def optimize(self, options: dict[str, Any]) -> None:
        lance.dataset(self._uri).optimize.optimize_indices(**options)

    def compact(self, options: dict[str, Any]) -> None:
        lance.dataset(self._uri).optimize.compact_files(**options)

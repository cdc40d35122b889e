"""Mistakes in searches, indices, changes, versions, catalogs, files, the command and the service.

As in `test_mistakes.py`: a call, and the parts that its message must have.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest

import alance.sync as alance
from alance.serve import Service
from tests.bad_input.mistakes import PRIVATE, ROWS, VECTOR, Place, check, check_command, rows_of
from tests.service.clients import client_of

if TYPE_CHECKING:
    from collections.abc import Callable

    Act = Callable[[Any], object]

SEARCHING: Final = [
    (lambda t: t.nearest("vector", VECTOR[1:]), "query of shape (7,)", "expected 8 numbers"),
    (lambda t: t.nearest("vector", None), "query of shape ()", "column 'vector'", "8 numbers"),
    (lambda t: t.nearest("vector", "hello"), "query of column 'vector'", "expected numbers"),
    (lambda t: t.nearest("vector", [float("nan")] * 8), "column 'vector': NaN or infinite"),
    (lambda t: t.nearest("vecter", VECTOR), "no field 'vecter'", "mean 'vector'?"),
    (lambda t: t.nearest("price", VECTOR), "column 'price' is of type double", "fixed-size list"),
    (lambda t: t.nearest(VECTOR, "vector"), "got list", "the column comes before the query"),
    (lambda t: t.nearest(VECTOR), "Dataset.nearest() missing", "column, query, k"),
    (lambda t: t.nearest("vector", VECTOR, k=0), "k=0: expected a positive integer"),
    (lambda t: t.nearest("vector", VECTOR, metric="cosin"), "metric='cosin'", "mean 'cosine'?"),
    (lambda t: t.nearest("vector", VECTOR, nprobs=3), "nearest: ", "'nprobs'", "mean 'nprobes'?"),
    (lambda t: t.nearest("vector", VECTOR, where="id"), "'where'", "mean 'filter'?"),
    (lambda t: t.nearest("vector", VECTOR, limit=3), "nearest: ", "'limit'", "mean 'k'?"),
    (lambda t: t.nearest("vector", VECTOR, refine_factor=0), "refine_factor=0: expected a pos"),
    (lambda t: t.to_table(nearest="vector"), "nearest: got str", "{'column': 'vector'"),
    (lambda t: t.to_table(nearest={"column": "vector", "kk": 3}), "unknown 'kk'", "mean 'k'?"),
    (lambda t: t.search_text(5), "query of texts: got int", "alance.MatchQuery(text, column)"),
    (lambda t: t.search_text("a", on="titel"), "no field 'titel'", "mean 'title'?"),
    (lambda t: t.search_text("a", on="price"), "column 'price' of type double: expected texts"),
    (lambda t: t.search_text("a", limit=5), "search_text: ", "'limit'", "mean 'k'?"),
    (lambda t: t.search(VECTOR), "Dataset.search() missing", "'vector'", "text, vector, k"),
    (lambda t: t.search("a", VECTOR, combine="max"), "combine='max'", "expected 'rrf'"),
    (lambda _: alance.MatchQuery(5), "query 5: expected a text"),
    (lambda _: alance.MatchQuery("a", operatr="x"), "MatchQuery()", "mean 'operator'?"),
    (lambda _: alance.BooleanQuery([("may", 1)]), "['may']", "MUST, SHOULD, MUST_NOT"),
    (lambda t: t.search_text(alance.PhraseQuery("a", "title")), "title_idx", "with_position=True"),
    (lambda _: alance.tokenize("a", language="Klingon"), "language='Klingon'", "English"),
]
INDEXING: Final = [
    (lambda t: t.create_index("vector", "IVF_PG"), "type 'IVF_PG'", "mean 'IVF_PQ'"),
    (lambda t: t.create_index("id", "BTREE"), "'BTREE'", "create_scalar_index('id', 'BTREE')"),
    (lambda t: t.create_index("id"), "Dataset.create_index() missing", "column, index_type"),
    (lambda t: t.create_index("title", "IVF_PQ"), "column 'title' is of type string"),
    (lambda t: t.create_index("price", "INVERTED"), "column 'price' of type double"),
    (lambda t: t.create_index("vector", "IVF_PQ", num_bits=5), "num_bits=5", "expected 4 or 8"),
    (lambda t: t.create_index("vector", "IVF_PQ", num_sub_vectors=3), "=3: vectors have 8"),
    (lambda t: t.create_index("vector", "IVF_PQ", num_subvectors=4), "mean 'num_sub_vectors'"),
    (lambda t: t.create_index("title", "INVERTED", stemm=True), "'stemm'", "mean 'stem'?"),
    (lambda t: t.create_index("title", "INVERTED", base_tokenizer="simpel"), "mean 'simple'?"),
    (lambda t: t.create_scalar_index("id", "BTRE"), "type 'BTRE'", "mean 'BTREE'?"),
    (lambda t: t.create_scalar_index("vector", "IVF_PQ"), "create_index(column, 'IVF_PQ')"),
    (lambda t: t.create_scalar_index("idd", "BTREE"), "no field 'idd'", "mean 'id'?"),
    (lambda t: t.create_scalar_index("tags", "BITMAP"), "column 'tags'", "expected a boolean"),
    (lambda t: t.drop_index("none"), "index 'none': not in version 3", "['id_idx', 'title_idx']"),
    (lambda t: t.index_statistics("title_id"), "'title_id'", "mean 'title_idx'?"),
    (lambda t: t.prewarm_index("titel_idx"), "'titel_idx'", "mean 'title_idx'"),
    (lambda t: t.centroids(), "expected index_name= or column="),
    (lambda t: t.optimize.compact(), "'Optimize'", "'compact_files'?"),
    (lambda t: t.optimize.compact_files(target_rows=1), "mean 'target_rows_per_fragment'"),
    (lambda t: t.maintain("x"), "policy: got str", "an alance.MaintenancePolicy"),
]
CHANGING: Final = [
    (lambda t: t.update({"pirce": "3"}), "no field 'pirce'", "mean 'price'?"),
    (lambda t: t.update({"price": 3}), "found int", "a constant is SQL text", "'price'"),
    (lambda t: t.update("price = 3"), "updates='price = 3'", "a mapping of columns"),
    (lambda t: t.update(values={"title": "x"}), "Dataset.update()", "mean 'updates'"),
    (lambda t: t.update({"id": "id +"}), "column 4", "in the new value of column 'id'"),
    (lambda t: t.update({"price": "'x'"}), "column 'price' (double)", "'x'"),
    (lambda t: t.update({"price": "1"}, where="idd = 1"), "column 1", "mean 'id'?"),
    (lambda t: t.delete(None), "predicate: expected SQL text", "found None"),
    (lambda t: t.delete([1, 2]), "filter: expected SQL text", "found list"),
    (lambda t: t.delete("price"), "column 1: expected a condition, found double"),
    (lambda t: t.merge_insert(5), "on: got int", "the name of a key column"),
    (lambda t: t.merge_insert("id").execute(ROWS), "nothing to do", "when_matched_update_all"),
    (lambda t: t.merge_insert("id").when_matched_update_al(), "mean 'when_matched_update_all'"),
    (lambda t: t.merge_insert("id").write_mode("x"), "mode='x'", "auto, rewrite_rows"),
    (lambda t: t.merge_insert("id").retry_timeout("5 min"), "timeout='5 min'", "a timedelta"),
    (lambda t: t.upsert(ROWS), "no key columns", "name them by `on`"),
    (lambda t: t.upsert(ROWS, on="idd"), "key column 'idd'", "mean 'id'?"),
    (lambda t: t.upsert(ROWS, key="id"), "Dataset.upsert()", "'key'", "mean 'on'?"),
    (lambda t: t.upsert(pa.table({"price": [1.0]}), on="id"), "'id': the data has no such column"),
    (lambda t: t.upsert(pa.concat_tables([ROWS, ROWS]), on="id"), "rows 0 and 16", "id = 0"),
    (lambda t: t.add_columns({"b": "pirce * 2"}), "mean 'price'?", "in new column 'b'"),
    (lambda t: t.add_columns({"price": "1"}), "column 'price': it exists already"),
    (lambda t: t.add_columns({"b": 5}), "found int", "in new column 'b'"),
    (
        lambda t: t.alter_columns({"path": "price"}),
        "'price': expected name, nullable, data_type or after",
    ),
    (lambda t: t.alter_columns({"path": "title", "type": 1}), "key 'type'", "data_type"),
    (lambda t: t.alter_columns("price"), "alteration 'price'", "a mapping with 'path'"),
    (lambda t: t.drop_columns("price"), "columns 'price'", "write columns=['price']"),
    (lambda t: t.drop_columns(["pirce"]), "no field 'pirce'", "mean 'price'?"),
    (lambda t: t.drop_columns(ROWS.column_names), "all columns would be dropped"),
    (lambda t: t.merge(ROWS, "idd"), "no field 'idd'", "mean 'id'?"),
]
VERSIONS: Final = [
    (lambda t: t.checkout_version(99), "no version 99", "the latest version is 3"),
    (lambda t: t.checkout_version("gol"), "no tag 'gol'", "mean 'gold'?"),
    (lambda t: t.checkout_branch("dev"), "no branch 'dev'"),
    (lambda t: t.restore("gold1"), "no tag 'gold1'", "mean 'gold'?"),
    (lambda t: t.tags.create("gold", 1), "tag 'gold' is there already"),
    (lambda t: t.tags.create("a b", 1), "tag 'a b'", "letters, digits"),
    (lambda t: t.tags.delete("golden"), "no tag 'golden'", "mean 'gold'?"),
    (lambda t: t.tags.remove("gold"), "'Tags' object", "no attribute 'remove'"),
    (lambda t: t.branches.create("main", 1), "branch 'main': reserved"),
    (lambda t: t.delta(99), "versions 99 to 3", "ascends up to version 3"),
    (lambda t: t.follow("x").__next__(), "since='x'", "'snapshot'"),
    (lambda t: t.cleanup_old_versions(older_than="7d"), "older_than='7d': expected a timedelta"),
    (lambda t: t.cleanup_old_versions(older_then=timedelta(1)), "mean 'older_than'"),
    (lambda t: t.update_config({"a": 5}), "'a': 5, expected text"),
    (lambda t: t.update_config(a=5), "Dataset.update_config(): unexpected", "values, replace"),
    (lambda t: t.update_field_metadata({"pirce": {}}), "no field 'pirce'", "mean 'price'?"),
    (lambda t: t.delete_config_keys("x"), "keys 'x': expected a list of keys"),
    (lambda t: t.shallow_clone(t.uri), "exists already"),
]
CATALOG: Final = [
    (lambda at: at.catalog.open_table("itmes"), "no table 'itmes'", "mean 'items'?"),
    (lambda at: at.catalog.drop_table("item"), "no table 'item'", "mean 'items'?"),
    (lambda at: at.catalog.create_table(ROWS, "new"), "table: got Table", "expected a name"),
    (lambda at: at.catalog.create_table("items", ROWS), "there is a table 'items' already"),
    (lambda at: at.catalog.create_table("new"), "data: expected rows", "`schema`"),
    (lambda at: at.catalog["../items"], "table '../items'", "begin with no dot"),
    (lambda at: at.catalog["a/b"], "table 'a/b'", "names without /"),
    (lambda at: at.catalog.list_tables("none"), "no namespace 'none'"),
    (lambda at: at.catalog.list_tables(limit=5), "Catalog.list_tables()", "'limit'"),
    (lambda at: at.catalog.table_names(), "'table_names'", "write `list_tables`"),
    (lambda at: at.catalog.open("items"), "'open'", "write `open_table`"),
]
FILES: Final = [
    (lambda at: at.api.FileReader.open(at.folder / "none"), "none: no such object"),
    (lambda at: at.api.FileReader.open(at.folder / "notes.txt"), "notes.txt: 1 bytes", "footer"),
    (lambda at: at.api.FileReader.open(at.uri), "items.lance: is a folder"),
    (lambda at: at.file.to_table("id"), "columns='id'", "write columns=['id']"),
    (lambda at: at.file.to_table(["idd"]), "no field 'idd'", "mean 'id'?"),
    (lambda at: at.file.to_table(stop="x"), "stop: got str, expected an integer"),
    (lambda at: at.file.to_table(start=5, stop=99), "rows 5 to 99: the file has 16"),
    (lambda at: next(at.file.to_batches(batch_size=-1)), "batch_size=-1: expected a positive"),
    (lambda at: at.file.take([99]), "row 99: the file has 16"),
    (lambda at: at.file.global_buffer(99), "global buffer 99: the file has"),
    (lambda at: at.api.FileWriter.open(at.new, ROWS), "schema: got Table", "pyarrow Schema"),
    (lambda at: at.api.FileWriter.open(at.new, version="3.0"), "file version '3.0'", "0.1, 2.0"),
    (lambda at: at.api.ingest(at.new, colour=1), "ingest(): ", "'colour'"),
    (lambda at: at.api.ingest(at.new).write(ROWS), "inside of its `async with` block"),
    (lambda at: at.api.commit(at.uri, 5), "operation 5: expected one of alance.operations"),
    (lambda at: at.api.ScanOptions(limitt=5), "ScanOptions()", "mean 'limit'?"),
    (lambda at: at.api.ColumnOrdering("id", ascend=1), "ColumnOrdering()", "mean 'ascending'?"),
]
# Lines of the command below the folder, with the exit status.
LINES: Final = [
    ("infoo items.lance", 2, "no 'infoo'", "mean 'info'?"),
    ("info", 2, "alance info: error", "required: uri", "`alance info --help`"),
    ("info none", 1, "dataset 'none': no such folder"),
    ("info .", 1, "it is a folder of tables", "items.lance"),
    ("info items.lance --version 99", 1, "no version 99", "latest version is 3"),
    ("info items.lance --version golf", 1, "no tag 'golf'", "mean 'gold'?"),
    (f"info items.lance --storage {PRIVATE}", 2, "--storage: expected KEY=VALUE"),
    (f"info s3://b/t --storage aws_regoin={PRIVATE}", 1, "'aws_regoin'", "mean 'region'?"),
    ("head items.lance -n x", 2, "-n/--num-rows", "invalid int value: 'x'"),
    ("head items.lance --colums id", 2, "--colums", "mean '--columns'?"),
    ("head items.lance --columns idd", 1, "no field 'idd'", "mean 'id'?"),
    ("take items.lance x", 2, "rows: 'x'", "such as 1,2,5-9"),
    ("take items.lance 99", 1, "index 99: the dataset has 16 rows"),
    ("count items.lance --where 'id > 1'", 2, "--where", "mean '--filter'?"),
    ("count items.lance --filter 'idd > 1'", 1, "unknown column 'idd'", "mean 'id'?"),
    ("sql items.lance 'select * from items'", 1, "items", "the table `dataset`"),
    ("tags items.lance create x", 2, "create x", "mean '--create'?"),
    ("index items.lance drop x", 2, "drop x", "mean '--drop'?"),
    ("write w.lance none.csv", 1, "none.csv: no such file"),
    ("write w.lance notes.txt", 1, "notes.txt: unknown ending", ".parquet"),
    ("append none.lance a.csv", 1, "dataset 'none.lance'"),
    ("delete items.lance", 2, "alance delete: error", "required: filter"),
    ("alter items.lance --drop pirce", 1, "no field 'pirce'", "mean 'price'?"),
    ("cat items.lance --format x", 2, "--format: no 'x'", "jsonl, csv, arrow, parquet"),
    ("serve items.lance --port 99999", 2, "--port: '99999'", "from 0 to 65535"),
    ("completions ksh", 2, "no 'ksh'", "bash, zsh, fish"),
    ("inspect notes.txt", 1, "notes.txt: 1 bytes"),
    ("check-store s4://x", 1, "scheme 's4'", "expected one of s3"),
]
REQUESTS: Final = [
    ("get", "{", 400, "get: not JSON"),
    ("get", "[]", 400, "get: expected a JSON object, not a list"),
    ("get", "{}", 400, "get: keys is missing"),
    ("get", '{"keys": 5}', 400, "get: keys is 5, expected list"),
    ("query", '{"where": "id"}', 400, "query: unknown 'where'; expected columns, filter"),
    ("query", '{"columns": ["idd"]}', 400, "no field 'idd'", "mean 'id'?"),
    ("query", '{"filter": "id > "}', 400, "filter, line 1, column 4", "operand is missing"),
    ("nearest", '{"vector": [1.0]}', 400, "query of shape (1,)", "expected 8 numbers"),
    ("nearest", '{"vector": ["a"]}', 400, "vector has"),
    ("text", '{"query": "a", "on": "titel"}', 400, "no field 'titel'", "mean 'title'?"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("mistakes"))


@pytest.mark.parametrize(("act", "parts"), rows_of([*SEARCHING, *INDEXING, *CHANGING, *VERSIONS]))
def test_errors_of_methods_say_what_to_write(place: Place, act: Act, parts: list[str]) -> None:
    check(lambda: act(place.table), parts)
    assert place.table.latest_version() == 3


@pytest.mark.parametrize(("act", "parts"), rows_of([*CATALOG, *FILES]))
def test_errors_beside_tables_say_what_to_write(place: Place, act: Act, parts: list[str]) -> None:
    check(lambda: act(place), parts)


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[0])
def test_the_command_answers_a_mistake_by_one_line(
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    line: tuple[Any, ...],
) -> None:
    check_command(line, place.folder, monkeypatch, capsys)


async def test_the_service_answers_a_mistake_by_its_member(place: Place) -> None:
    async with Service({"items": place.uri}, key="id") as service, client_of(service) as client:
        for verb, body, status, *parts in REQUESTS:
            answer = await client.post(
                f"/{verb}", content=body, headers={"content-type": "application/json"}
            )
            assert answer.status_code == status, answer.text
            detail = answer.json()["detail"]
            assert [part for part in parts if part not in detail] == [], detail

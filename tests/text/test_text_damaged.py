"""Damaged and missing files of inverted indices: a clear error, or the rows that are right."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import alance
from alance import MatchQuery, PhraseQuery
from alance.format.index.text.dictionary import TokenDictionary
from alance.format.index.text.metadata import Documents, TextMetadata
from alance.format.index.text.params import TextParams
from alance.format.index.text.postings import Postings
from alance.ops.search.text import segments
from tests.text.text_cases import ours, texts, written

if TYPE_CHECKING:
    from pathlib import Path

FILES = ("metadata", "part_0_tokens", "part_0_docs", "part_0_invert")


REFUSED = (alance.CorruptFileError, alance.InvalidInputError, alance.UnsupportedError)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("file", FILES)
async def test_spoiled_files_give_errors_and_no_crash(
    tmp_path: Path, file: str, version: int
) -> None:
    written(tmp_path / "t", 500, with_position=True, format_version=version)
    (place,) = (tmp_path / "t" / "_indices").glob(f"*/{file}.lance")
    content = place.read_bytes()
    chance, errors = random.Random(version), 0
    for number in range(16):
        spoiled = bytearray(content)
        if number % 5 == 0:
            del spoiled[chance.randrange(len(content)) :]
        elif number % 5 == 1:
            at = chance.randrange(len(content))
            spoiled[at : at + 64] = bytes(64)
        else:
            for _ in range(chance.choice((1, 4, 30))):
                spoiled[chance.randrange(len(content))] = chance.randrange(256)
        place.write_bytes(spoiled)
        async with alance.Session() as session:
            dataset = await alance.dataset(tmp_path / "t", session=session)
            for query in (MatchQuery("fox dog the"), PhraseQuery("quick fox", slop=2)):
                try:
                    rows = await ours(dataset, query)
                    assert set(rows["id"].to_pylist()) <= {*range(500)}
                except REFUSED:
                    errors += 1  # that there are no positions may be what is damaged
    assert errors > 2


async def test_spoiled_files_of_elements_give_errors_and_no_crash(tmp_path: Path) -> None:
    pairs = zip(texts(300), texts(300, 8), strict=True)
    rows = [[text for text in pair if text is not None] for pair in pairs]
    data = pa.table({"id": range(300), "text": pa.array(rows, pa.list_(pa.string()))})
    dataset = await alance.write_dataset(data, tmp_path / "t")
    elements = {"document_granularity": "list_element"}
    await dataset.create_index("text", "INVERTED", with_position=True, **elements)
    (place,) = (tmp_path / "t" / "_indices").glob("*/part_*_docs.lance")
    content, chance, errors = place.read_bytes(), random.Random(4), 0
    for number in range(24):
        spoiled = bytearray(content)
        if number % 3:
            at = chance.randrange(len(content))
            spoiled[at : at + 64] = bytes(len(spoiled[at : at + 64]))
        else:
            spoiled[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        place.write_bytes(spoiled)
        async with alance.Session() as session:
            dataset = await alance.dataset(tmp_path / "t", session=session)
            try:
                query = MatchQuery("fox dog", "text")
                hits = await dataset.search_text(query, 1000, columns=["id"])
            except alance.CorruptFileError:
                errors += 1
                continue
            assert set(hits["id"].to_pylist()) <= {*range(300)}
    assert errors > 2


@pytest.mark.parametrize("kind", ["row", "list_element"])
async def test_documents_are_what_the_record_says(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = pa.table({"text": pa.array([["fox", "dog"], ["fox"]] * 20, pa.list_(pa.string()))})
    dataset = await alance.write_dataset(data, tmp_path / "t")
    dataset = await dataset.create_index("text", "INVERTED", document_granularity=kind)
    is_of_elements = segments.is_of_elements
    monkeypatch.setattr(segments, "is_of_elements", lambda details: not is_of_elements(details))
    dataset = await alance.dataset(tmp_path / "t")
    with pytest.raises(alance.CorruptFileError, match="against its record"):
        await dataset.search_text(MatchQuery("fox", "text"))


@pytest.mark.parametrize("file", FILES)
async def test_a_missing_file_is_named_and_the_search_goes_without_it(
    tmp_path: Path, file: str
) -> None:
    written(tmp_path / "t")
    (place,) = (tmp_path / "t" / "_indices").glob(f"*/{file}.lance")
    place.unlink()
    dataset = await alance.dataset(tmp_path / "t")
    with pytest.raises(alance.NotFoundError, match=file) as caught:
        await dataset.search_text("fox")
    assert "use_index=False" in str(caught.value.__notes__)
    assert len(await dataset.search_text("fox", on="text", use_index=False)) == 10


async def test_an_index_of_rows_that_are_not_there_is_an_error(tmp_path: Path) -> None:
    written(tmp_path / "t", 300, per_file=100)
    written(tmp_path / "other", 300, per_file=300)
    (own,) = (tmp_path / "t" / "_indices").iterdir()
    (other,) = (tmp_path / "other" / "_indices").iterdir()
    for name in FILES[1:]:
        source, target = other / f"{name}.lance", own / f"{name}.lance"
        size, content = target.stat().st_size, source.read_bytes()
        if size < len(content):
            pytest.fail("the files of the other table are larger")
        target.write_bytes(content[:-40] + bytes(size - len(content)) + content[-40:])
    dataset = await alance.dataset(tmp_path / "t")
    with pytest.raises(alance.CorruptFileError, match=r"row \d+ of fragment 0, which has 100"):
        await dataset.search_text("fox", 300, columns=["_rowid"])
    shutil.rmtree(own)


RIGHT = {"partitions": "[0]", "params": TextParams().as_json(), "format_version": "2"}


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {**RIGHT, "partitions": "[0,0]"},
        {**RIGHT, "partitions": "{}"},
        {**RIGHT, "partitions": "[-1]"},
        {**RIGHT, "partitions": "["},
        {**RIGHT, "params": "[]"},
    ],
    ids=str,
)
def test_metadata_that_is_none_is_refused(metadata: dict[str, str]) -> None:
    assert TextMetadata.parse(RIGHT).partitions == (0,)
    with pytest.raises(alance.CorruptFileError):
        TextMetadata.parse(metadata)


@pytest.mark.parametrize(
    "more",
    [
        {"format_version": "4"},
        {"posting_block_size": "64"},
        {"posting_tail_codec": "x"},
        {"positions_layout": "x"},
        {"positions_codec": "x"},
    ],
    ids=str,
)
def test_another_format_is_not_supported(more: dict[str, str]) -> None:
    with pytest.raises(alance.UnsupportedError):
        TextMetadata.parse({**RIGHT, **more})


def test_tokens_are_in_order_and_have_each_a_number() -> None:
    def parse(words: list[str], numbers: list[int], lists: int) -> TokenDictionary:
        arrays = [pa.array(words), pa.array(numbers, pa.uint32())]
        batch = pa.RecordBatch.from_arrays(arrays, ["_token", "_token_id"])
        return TokenDictionary.parse(batch, lists)

    right = parse(["a", "b", "é"], [2, 0, 1], 3)
    assert right.find(["b", "zz", "é", ""]).tolist() == [0, -1, 1, -1]
    for words, numbers, lists in (
        (["b", "a", "é"], [2, 0, 1], 3),
        (["a", "a", "é"], [2, 0, 1], 3),
        (["a", "b", "é"], [2, 0, 3], 3),
        (["a", "b", "é"], [2, 0, 0], 3),
        (["a", "b", "é"], [2, 0, 1], 4),
    ):
        with pytest.raises(alance.CorruptFileError):
            parse(words, numbers, lists)


WORDS = ["quick", "brown", "fox", "jump", "lazi", "dog", "run"]
TRANSDUCER = bytes.fromhex(
    "0300000000000000000000000000000000108bccc4c7001097c40010aac4001089d0d3001088f6c50010a7cac8d31c"
    "10930600040302050101040a0f14181c72716c6a66646211070700000000000000470000000000000097634049"
)


def transducer(content: bytes, count: int = 7, size: int = 27) -> TokenDictionary:
    columns = {
        "_token_fst_bytes": pa.array([content], pa.large_binary()),
        "_token_next_id": pa.array([count], pa.uint32()),
        "_token_total_length": pa.array([size], pa.uint64()),
    }
    parsed = TokenDictionary.parse(pa.RecordBatch.from_pydict(columns), count)
    assert all(-1 <= number < count for number in parsed.find(WORDS))
    assert sorted(parsed.tokens.numbers.tolist()) == list(range(count))
    return parsed


def test_a_transducer_gives_its_tokens() -> None:
    parsed = transducer(TRANSDUCER)
    assert parsed.find([*WORDS, "", "qu", "quicker", "z"]).tolist() == [*range(7), -1, -1, -1, -1]
    ordered = [parsed.tokens.word(place) for place in range(7)]
    assert ordered == sorted(WORDS)
    assert [WORDS[number] for number in parsed.tokens.numbers.tolist()] == ordered


def test_a_damaged_transducer_is_refused_whatever_its_checksum_says() -> None:
    for content, count, size in (
        (TRANSDUCER[:-1] + b"\0", 7, 27),
        (TRANSDUCER, 6, 27),
        (TRANSDUCER, 7, 26),
        (TRANSDUCER[:30], 7, 27),
    ):
        with pytest.raises(alance.CorruptFileError):
            transducer(content, count, size)
    chance = random.Random(1)
    errors = 0
    for _ in range(400):
        content = bytearray(TRANSDUCER[:-4])
        for _ in range(chance.choice((1, 2, 5))):
            content[chance.randrange(8, len(content))] = chance.randrange(256)
        try:
            transducer(bytes(content) + checksum(bytes(content)))
        except alance.CorruptFileError:
            errors += 1
    assert errors > 300


def checksum(content: bytes) -> bytes:
    value = 0xFFFFFFFF
    for byte in content:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    value ^= 0xFFFFFFFF
    return ((((value >> 15) | (value << 17)) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


def test_posting_lists_are_checked_against_their_documents() -> None:
    block = bytes.fromhex("6419fb3e 000201 010201")
    metadata = TextMetadata.parse({**RIGHT, "posting_tail_codec": "varint_delta_v1"})

    def parse(content: bytes, length: int, num_docs: int) -> Postings:
        columns = {
            "_posting": pa.array([[content]], pa.list_(pa.large_binary())),
            "_length": pa.array([length], pa.uint32()),
        }
        batch = pa.RecordBatch.from_pydict(columns)
        return Postings.parse(batch, metadata, num_docs, with_positions=False)

    right = parse(block, 3, 4)
    assert right.docs.tolist() == [0, 2, 3]
    assert right.frequencies.tolist() == [1, 2, 1]
    for content, length, num_docs in (
        (block, 3, 3),
        (block, 2, 4),
        (block, 4, 4),
        (block, 200, 300),
        (block[:-1], 3, 4),
        (block + b"\0", 3, 4),
        (block.replace(b"\x02\x01\x01", b"\x00\x01\x01"), 3, 4),
        (block[:-1] + b"\0", 3, 4),
        (b"", 3, 4),
    ):
        with pytest.raises(alance.CorruptFileError):
            parse(content, length, num_docs)


def test_documents_have_as_many_tokens_as_is_told() -> None:
    columns = {
        "_rowid": pa.array([5, 7], pa.uint64()),
        "_num_tokens": pa.array([3, 4], pa.uint32()),
    }
    batch = pa.RecordBatch.from_pydict(columns)
    assert Documents.parse(batch, {"total_tokens": "7"}).total == 7
    with pytest.raises(alance.CorruptFileError):
        Documents.parse(batch, {"total_tokens": "8"})
    with pytest.raises(alance.CorruptFileError):
        Documents.parse(batch.select(["_rowid"]), {})
    with pytest.raises(alance.CorruptFileError):
        Documents.parse(batch.set_column(1, "_num_tokens", pa.array(np.arange(2))), {})

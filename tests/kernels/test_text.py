"""Kernels of inverted indices against plain Python, and with bytes that contradict themselves."""

from __future__ import annotations

from itertools import chain, pairwise, product
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alance import _kernels
from alance.format.index.text.dictionary import TOKEN, TOKEN_ID, TokenDictionary

Numbers: TypeAlias = np.ndarray[Any, Any]
NOTHING: Final = np.empty(0, np.uint32)
NO_MASK: Final = np.empty(0, np.uint8)
documents = st.lists(st.lists(st.integers(0, 6), max_size=8), max_size=300)


def single(docs: Numbers, frequencies: Numbers, positions: Numbers) -> _kernels.PostingList:
    (only,) = _kernels.posting_lists(np.array([0, len(docs)]), docs, frequencies, positions)
    return only


def collected(rows: list[list[int]]) -> _kernels.TextPostings:
    postings = _kernels.TextPostings(True)
    counts = np.array([len(row) for row in rows], np.int64)
    tokens = np.array([token for row in rows for token in row], np.uint32)
    places = np.array([place for row in rows for place in range(len(row))], np.uint32)
    half = len(rows) // 2
    cut = int(counts[:half].sum())
    postings.add(counts[:half], tokens[:cut], places[:cut])
    postings.add(counts[half:], tokens[cut:], places[cut:])
    return postings


def lists_of(rows: list[list[int]]) -> dict[int, list[tuple[int, list[int]]]]:
    """Return the documents and positions of each token, in plain Python."""
    lists: dict[int, list[tuple[int, list[int]]]] = {}
    for doc, row in enumerate(rows):
        for token in sorted(set(row)):
            places = [place for place, other in enumerate(row) if other == token]
            lists.setdefault(token, []).append((doc, places))
    return lists


@settings(deadline=None, max_examples=60)
@given(documents, st.integers(0, 40))
def test_lists_that_are_encoded_are_decoded_as_they_were(rows: list[list[int]], more: int) -> None:
    rows = [*rows, *[[0, 1, 0]] * (more * 5), [0]]
    right = lists_of(rows)
    tokens = sorted(right)
    dense = [[tokens.index(token) for token in row] for row in rows]
    postings = collected(dense)
    starts, docs, frequencies, positions = postings.lists(0, len(tokens))
    assert np.diff(starts).tolist() == [len(right[token]) for token in tokens]
    assert docs.tolist() == [doc for token in tokens for doc, _ in right[token]]
    assert frequencies.tolist() == [len(p) for token in tokens for _, p in right[token]]
    assert positions.tolist() == [at for token in tokens for _, p in right[token] for at in p]
    lengths = np.array([len(row) for row in rows], np.uint32)
    mean = float(lengths.mean())
    blocks, _, counts, _, places, place_blocks = _kernels.encode_postings(
        starts, docs, frequencies, positions, True, lengths, mean
    )
    again = _kernels.decode_postings(
        blocks[0].astype(np.int64), blocks[1], blocks[2], counts, len(rows), 128, 1
    )
    assert again[0].tolist() == docs.tolist()
    assert again[1].tolist() == frequencies.tolist()
    where = _kernels.decode_positions(
        places[0], places[1], place_blocks[0].astype(np.int64), place_blocks[1], counts,
        frequencies, 128,
    )  # fmt: skip
    assert where.tolist() == positions.tolist()
    for needs_all in (False, True):
        weights = np.arange(1, len(tokens) + 1, dtype=np.float32)
        lists = [
            posting_list(starts, docs, frequencies, positions, token)
            for token in range(len(tokens))
        ]
        result, scores = searched(lists, weights, lengths, mean, needs_all=needs_all)
        expected = scored(right, tokens, lengths.tolist(), needs_all=needs_all)
        assert result.tolist() == sorted(expected)
        np.testing.assert_allclose(scores, [expected[doc] for doc in result.tolist()], rtol=1e-4)


@settings(deadline=None, max_examples=60)
@given(documents, st.integers(0, 400))
def test_lists_in_parts_are_those_at_once(rows: list[list[int]], num_bytes: int) -> None:
    rows = [*rows, list(range(7))]
    postings = collected(rows)
    starts, docs, frequencies, positions = postings.lists(0, 7)
    start = 0
    while start < 7:
        part = postings.lists(start, 7, num_bytes)
        stop = start + len(part[0]) - 1
        assert start < stop <= 7
        first, last = starts[start], starts[stop]
        before, behind = (int(frequencies[:doc].sum()) for doc in (first, last))
        assert part[0].tolist() == (starts[start : stop + 1] - first).tolist()
        assert part[1].tolist() == docs[first:last].tolist()
        assert part[2].tolist() == frequencies[first:last].tolist()
        assert part[3].tolist() == positions[before:behind].tolist()
        start = stop


def test_lists_of_many_blocks_lie_side_by_side() -> None:
    rng = np.random.default_rng(3)
    counts = rng.integers(0, 20, 100_000)
    total = int(counts.sum())
    tokens = (rng.zipf(1.3, total) % 1000).astype(np.uint32)
    docs, begins = np.repeat(np.arange(len(counts)), counts), np.cumsum(counts) - counts
    places = (np.arange(total) - begins[docs]).astype(np.uint32)
    postings = _kernels.TextPostings(True)
    for part in np.array_split(np.arange(len(counts)), 7):
        first = int(begins[part[0]])
        stop = first + int(counts[part].sum())
        postings.add(counts[part], tokens[first:stop], places[first:stop])
    assert postings.num_bytes() > 2 << 20  # of slabs that have 1 MiB
    order = np.lexsort((places, docs, tokens))
    pairs, frequencies = np.unique(
        np.stack((tokens[order], docs[order])), axis=1, return_counts=True
    )
    starts, *rest = postings.lists(0, postings.num_tokens())
    assert np.diff(starts).tolist() == np.bincount(pairs[0]).tolist()
    for ours, right in zip(rest, (pairs[1], frequencies, places[order]), strict=True):
        np.testing.assert_array_equal(ours, right)


def posting_list(
    starts: Numbers, docs: Numbers, frequencies: Numbers, positions: Numbers, token: int
) -> _kernels.PostingList:
    start, stop = starts[token], starts[token + 1]
    first, last = (int(frequencies[:end].sum()) for end in (start, stop))
    return single(docs[start:stop], frequencies[start:stop], positions[first:last])


def searched(
    lists: list[_kernels.PostingList],
    weights: Numbers,
    lengths: Numbers,
    mean: float,
    *,
    needs_all: bool,
    mask: Numbers = NO_MASK,
    ids: Numbers | None = None,
    count: int = 0,
    floor: float = -np.inf,
    only: Numbers = NOTHING,
) -> tuple[Numbers, Numbers]:
    program = words(range(len(lists)), needs_all=needs_all)
    return search(lists, weights, program, 1, lengths, mean, mask, ids, count, floor, only=only)


def words(lists: range, *, needs_all: bool) -> list[int]:
    """Words of a query, each of a list."""
    groups = [[1, number] for number in lists] if needs_all else [[len(lists), *lists]]
    return [0, lists.start, lists.stop, int(needs_all), len(groups), *chain.from_iterable(groups)]


def search(
    lists: list[_kernels.PostingList],
    weights: Numbers,
    program: list[int],
    num_parts: int,
    lengths: Numbers,
    mean: float,
    mask: Numbers = NO_MASK,
    ids: Numbers | None = None,
    count: int = 0,
    floor: float = -np.inf,
    *,
    factors: Numbers | None = None,
    of_index: bool = True,
    times: float = 1,
    only: Numbers = NOTHING,
) -> tuple[Numbers, Numbers]:
    is_ordered = ids is None
    ids = np.arange(len(lengths), dtype=np.uint64) if ids is None else ids
    factors = np.ones(num_parts, np.float32) if factors is None else factors
    return _kernels.search_postings(
        lists, weights, np.array(program, np.int32), factors, of_index, lengths, mean, times, mask,
        ids, is_ordered, count, floor, only,
    )  # fmt: skip


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 2**32), st.integers(1, 400), st.integers(1, 6), st.booleans(), st.booleans())
def test_the_best_documents_are_the_best_of_all(
    seed: int, count: int, num_lists: int, needs_all: bool, has_few: bool
) -> None:
    rng = np.random.default_rng(seed)
    num_docs = int(rng.integers(1, 30_000))
    lists = []
    for _ in range(num_lists):
        share = rng.random() ** 3 if not needs_all else rng.uniform(0.3, 1)
        docs = np.flatnonzero(rng.random(num_docs) < share).astype(np.uint32)
        # Few kinds of documents have the same scores; 300 needs more than a byte.
        frequencies = rng.choice([1, 1, 1, 2, 3, 300], len(docs)).astype(np.uint32)
        lists.append(single(docs, frequencies, NOTHING))
    lengths = rng.integers(1, 3 if has_few else 60, num_docs).astype(np.uint32)
    weights = rng.uniform(0.1, 9, num_lists).astype(np.float32)
    mean = float(lengths.mean())
    ids = rng.permutation(num_docs).astype(np.uint64) if rng.random() < 0.5 else None
    mask = (rng.random(num_docs) < 0.7).astype(np.uint8) if rng.random() < 0.5 else NO_MASK
    docs, scores = searched(lists, weights, lengths, mean, needs_all=needs_all, mask=mask)
    sample = docs[rng.random(len(docs)) < 0.3]
    if len(sample):  # those that do not match are asked for as well
        others = np.flatnonzero(rng.random(num_docs) < 0.01).astype(np.uint32)
        only = np.union1d(sample, others[mask[others] > 0] if len(mask) else others)
        result, own = searched(lists, weights, lengths, mean, needs_all=needs_all, only=only)
        is_requested = np.isin(docs, only)
        assert result.tolist() == docs[is_requested].tolist()
        assert own.tolist() == scores[is_requested].tolist()
    order = np.lexsort((docs if ids is None else ids[docs], -scores))[:count]
    floor = scores[order[-1]] if len(order) == count and rng.random() < 0.3 else -np.inf
    best = searched(
        lists, weights, lengths, mean, needs_all=needs_all, mask=mask, ids=ids, count=count,
        floor=floor,
    )  # fmt: skip
    assert best[0].tolist() == sorted(docs[order].tolist())
    assert best[1].tolist() == scores[np.sort(order)].tolist()
    pair = _kernels.documents_of(lists)
    if len(mask):
        pair = pair[mask[pair] > 0]
    assert needs_all or pair.tolist() == docs.tolist()


@settings(deadline=None, max_examples=120)
@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 7))
def test_the_best_of_combined_queries_are_the_best_of_all(
    seed: int, count: int, num_parts: int
) -> None:
    rng = np.random.default_rng(seed)
    num_docs = int(rng.integers(1, 12_000))
    lists: list[_kernels.PostingList] = []
    factors: list[float] = []

    def leaf() -> list[int]:
        first = len(lists)
        for _ in range(int(rng.integers(1, 4))):
            docs = np.flatnonzero(rng.random(num_docs) < rng.random() ** 2).astype(np.uint32)
            frequencies = rng.choice([1, 1, 2, 5], len(docs)).astype(np.uint32)
            positions = np.concatenate([np.arange(n) for n in frequencies] or [frequencies])
            lists.append(single(docs, frequencies, positions.astype(np.uint32)))
        own = range(first, len(lists))
        if rng.random() < 0.2:
            pairs = [number for place, token in enumerate(own) for number in (token, place)]
            return [1, own.start, own.stop, int(rng.integers(0, 3)), len(own), *pairs]
        if len(own) > 2 and rng.random() < 0.3:  # one of two words, and another one
            return [0, own.start, own.stop, 1, 2, 2, *own[:2], 1, own[2]]
        return words(own, needs_all=rng.random() < 0.5)

    def tree(remaining: int) -> list[int]:
        place = len(factors)
        factors.append(1.0)
        kind = rng.random()
        if remaining <= 1:
            return [4] if kind < 0.05 else leaf()
        sizes = [remaining // 2, remaining - remaining // 2]
        if kind < 0.3:
            factors[place] = rng.choice([0.5, 2.0, -1.0], p=[0.6, 0.3, 0.1])
            return [3, *tree(sizes[0]), *tree(sizes[1])]
        counts = [[2, 0, 0], [0, 2, 0], [1, 1, 0], [1, 0, 1], [0, 1, 1]][rng.integers(5)]
        return [2, *counts, *tree(sizes[0]), *tree(sizes[1])]

    program = tree(num_parts)
    lengths = rng.integers(1, 40, num_docs).astype(np.uint32)
    weights = rng.uniform(0.1, 9, len(lists)).astype(np.float32)
    mask = (rng.random(num_docs) < 0.7).astype(np.uint8) if rng.random() < 0.5 else NO_MASK
    rest = (lengths, float(lengths.mean()), mask, None)
    array = np.array(factors, np.float32)
    docs, scores = search(lists, weights, program, 0, *rest, factors=array)
    best = search(lists, weights, program, 0, *rest, count, factors=array)
    order = np.sort(np.lexsort((docs, -scores))[:count])
    assert best[0].tolist() == docs[order].tolist()
    assert best[1].tolist() == scores[order].tolist()


def scored(
    lists: dict[int, list[tuple[int, list[int]]]],
    tokens: list[int],
    lengths: list[int],
    *,
    needs_all: bool,
) -> dict[int, float]:
    mean = sum(lengths) / len(lengths)
    sums: dict[int, list[float]] = {}
    for weight, token in enumerate(tokens, 1):
        for doc, places in lists[token]:
            count = len(places)
            norm = 1.2 * (0.25 + 0.75 * lengths[doc] / mean)
            sums.setdefault(doc, []).append(weight * 2.2 * count / (count + norm))
    return {
        doc: sum(parts) for doc, parts in sums.items() if len(parts) == len(tokens) or not needs_all
    }


def is_phrase(row: list[int], words: list[int], slop: int) -> bool:
    places = [[at for at, other in enumerate(row) if other == word] for word in words]
    return any(
        all(0 <= after - before - 1 <= slop for before, after in pairwise(chosen))
        for chosen in product(*places)
    )


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=9), min_size=1, max_size=12),
    st.lists(st.integers(0, 2), min_size=1, max_size=4),
    st.integers(0, 3),
)
def test_phrases_are_found_where_their_words_are_near(
    rows: list[list[int]], words: list[int], slop: int
) -> None:
    postings = collected(rows)
    query_words = sorted(set(words))
    candidates = [doc for doc, row in enumerate(rows) if set(words) <= set(row)]
    if not candidates:
        return
    lists = [posting_list(*postings.lists(token, token + 1), 0) for token in query_words]

    pairs = [
        number for place, word in enumerate(words) for number in (query_words.index(word), place)
    ]
    program = [1, 0, len(lists), slop, len(words), *pairs]
    weights, lengths = np.ones(len(lists), np.float32), np.ones(len(rows), np.uint32)

    def mask(*, of_index: bool) -> list[bool]:
        docs, _ = search(lists, weights, program, 1, lengths, 1.0, of_index=of_index)
        best, _ = search(lists, weights, program, 1, lengths, 1.0, count=2, of_index=of_index)
        assert set(best.tolist()) <= set(docs.tolist())
        assert len(best) == min(2, len(docs))
        return [doc in docs.tolist() for doc in candidates]

    right = [is_phrase(rows[doc], words, slop) for doc in candidates]
    assert mask(of_index=False) == right
    passed_by = mask(of_index=True)
    assert passed_by == right or slop > 0
    assert all(a <= b for a, b in zip(passed_by, right, strict=True))


@given(
    st.sets(st.text("abé日", max_size=5), max_size=20),
    st.text("abé日", max_size=5),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_tokens_near_another_are_those_of_a_small_distance(
    words: set[str], word: str, distance: int, prefix: int
) -> None:
    ordered = sorted(words, key=str.encode)
    contents = [other.encode() for other in ordered]
    offsets = np.cumsum([0, *map(len, contents)])
    data = np.frombuffer(b"".join(contents), np.uint8)
    request = np.frombuffer(word.encode(), np.uint8)
    count = len(word[:prefix].encode())
    places = _kernels.near_tokens(offsets, data, request, distance, count, 5)
    right = [
        place
        for place, other in enumerate(ordered)
        if levenshtein(word, other) <= distance and other.startswith(word[:prefix])
    ]
    assert places.tolist() == right[:5]


def transducer(words: dict[bytes, int]) -> Numbers:
    """A map of tokens to numbers, as its bytes."""
    keys = sorted(words)
    offsets = np.cumsum([0, *map(len, keys)]).astype(np.int64)
    data = np.frombuffer(b"".join(keys), np.uint8)
    numbers = np.array([words[key] for key in keys], np.uint32)
    return _kernels.encode_transducer(offsets, data, numbers)


tokens_of_bytes = st.one_of(
    st.binary(max_size=6), st.text("aeinost", max_size=8).map(str.encode), st.text().map(str.encode)
)


@settings(deadline=None, max_examples=200)
@given(st.lists(tokens_of_bytes, unique=True, max_size=400), st.randoms(use_true_random=False))
def test_a_transducer_gives_the_tokens_and_numbers_that_it_was_made_of(
    keys: list[bytes], chance: Any
) -> None:
    numbers = chance.sample(range(len(keys)), len(keys))
    words = dict(zip(keys, numbers, strict=True))
    parsed = _kernels.Transducer(transducer(words), len(words))
    offsets, data, ids = parsed.tokens(sum(map(len, keys)))
    spelled = [data[start:stop].tobytes() for start, stop in pairwise(offsets.tolist())]
    assert spelled == sorted(keys)
    assert ids.tolist() == [words[key] for key in spelled]
    assert parsed.find(offsets, data).tolist() == ids.tolist()
    absent = [key + b"!" for key in keys if key + b"!" not in words]
    ends = np.cumsum([0, *map(len, absent)]).astype(np.int64)
    numbers_of_absent = parsed.find(ends, np.frombuffer(b"".join(absent), np.uint8))
    assert numbers_of_absent.tolist() == [-1] * len(absent)


@given(st.lists(st.text(max_size=6), unique=True, max_size=60), st.randoms(use_true_random=False))
def test_words_are_found_among_tokens_in_rows(words: list[str], chance: Any) -> None:
    words.sort(key=str.encode)
    numbers = chance.sample(range(len(words)), len(words))
    columns = [pa.array(words, pa.string()), pa.array(numbers, pa.uint32())]
    batch = pa.RecordBatch.from_arrays(columns, [TOKEN, TOKEN_ID])
    parsed = TokenDictionary.parse(batch, len(words))
    absent = [word + "!" for word in [*words, ""] if word + "!" not in words]
    assert parsed.find([*absent, *words]).tolist() == [*[-1] * len(absent), *numbers]


def test_a_transducer_of_every_byte_after_every_byte_is_read() -> None:
    keys = [bytes(pair) for pair in product(range(256), repeat=2)]
    words = {key: place for place, key in enumerate(keys)}
    content = transducer(words)
    offsets, data, ids = _kernels.Transducer(content, len(keys)).tokens(2 * len(keys))
    assert data.tobytes() == b"".join(keys)
    assert offsets.tolist() == list(range(0, 2 * len(keys) + 1, 2))
    assert ids.tolist() == list(range(len(keys)))
    assert len(content) < 400_000  # nodes that are alike but for their numbers are written once


def test_tokens_out_of_order_make_no_transducer() -> None:
    data = np.frombuffer(b"baab", np.uint8)
    two = np.arange(2, dtype=np.uint32)
    for offsets in ([0, 1, 2], [1, 2, 3], [0, 3, 2]):
        with pytest.raises(ValueError, match="token 1 is not behind"):
            _kernels.encode_transducer(np.array(offsets, np.int64), data, two)
    with pytest.raises(ValueError, match="1 tokens, 2 numbers"):
        _kernels.encode_transducer(np.array([0, 1], np.int64), data, two)
    for bad in ([-1, 1, 2], [0, 1, 5], []):
        with pytest.raises(ValueError, match="outside of their bytes"):
            _kernels.encode_transducer(np.array(bad, np.int64), data, two)


def levenshtein(left: str, right: str) -> int:
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(right, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]


def test_arrays_that_contradict_each_other_are_refused() -> None:
    starts, docs = np.array([0, 2]), np.array([1, 3], np.uint32)
    ones, weights = np.ones(2, np.uint32), np.ones(1, np.float32)
    lengths, ids = np.ones(4, np.uint32), np.arange(4, dtype=np.uint64)
    for wrong in (
        (docs[::-1].copy(), ones, NOTHING),
        (docs, ones[:1], NOTHING),
        (docs, ones, ones[:1]),
    ):
        with pytest.raises(ValueError, match="text index"):
            single(*wrong)
    lists = [single(docs, ones, np.zeros(2, np.uint32))]
    assert _kernels.documents_of(lists).tolist() == docs.tolist()
    assert lists[0].frequencies_of(docs.astype(np.int64)).tolist() == ones.tolist()
    any_word = words(range(1), needs_all=False)
    for wrong in (
        ([*lists, *lists], weights, any_word, 1, lengths, 1.0),
        (lists, weights[:0], any_word, 1, lengths, 1.0),
        (lists, weights * 0, any_word, 1, lengths, 1.0),
        (lists, weights, any_word, 1, lengths[:3], 1.0),
        (lists, weights, any_word, 1, lengths, 0.0),
        (lists, weights, any_word, 1, lengths, 1.0, NO_MASK, ids[:3]),
        (lists, weights, any_word, 1, lengths, 1.0, np.ones(3, np.uint8)),
        (lists, weights, any_word, 2, lengths, 1.0),
        (lists, weights, any_word[:-1], 1, lengths, 1.0),
        (lists, weights, [*any_word, 4], 1, lengths, 1.0),
        (lists, weights, [0, 0, 2, 0, 1, 1, 0], 1, lengths, 1.0),
        (lists, weights, [0, 0, 1, 0, 1, 1, 1], 1, lengths, 1.0),
        (lists, weights, [1, 0, 1, -1, 1, 0, 0], 1, lengths, 1.0),
        (lists, weights, [2, 0, 0, 1, *any_word], 2, lengths, 1.0),
        (lists, weights, [5], 1, lengths, 1.0),
        (lists, weights, [3] * 5000, 5000, lengths, 1.0),
    ):
        with pytest.raises(ValueError, match="text index"):
            search(*wrong)
    for few in ([4], [2, 1]):
        with pytest.raises(ValueError, match="out of order"):
            search(lists, weights, any_word, 1, lengths, 1.0, only=np.array(few, np.uint32))
    phrase = [1, 0, 1, 0, 1, 0, 0]
    assert search(lists, weights, phrase, 1, lengths, 1.0)[0].tolist() == docs.tolist()
    with pytest.raises(ValueError, match="without positions"):
        search([single(docs, ones, NOTHING)], weights, phrase, 1, lengths, 1.0)
    places = np.zeros(2, np.uint32)
    postings = _kernels.TextPostings(False)
    with pytest.raises(ValueError, match="text"):
        postings.add(np.array([2]), ones[:1], ones[:1])
    for first, stop in ((0, 1), (-1, 0), (1, 0)):
        with pytest.raises(ValueError, match="text: token"):
            postings.lists(first, stop, 1)
    postings.add(np.array([2]), ones[:1].repeat(2), places)
    with pytest.raises(ValueError, match="without documents"):  # token 0
        _kernels.encode_postings(*postings.lists(0, 2), False, lengths[:1], 1.0)
    with pytest.raises(ValueError, match="out of order"):
        _kernels.encode_postings(starts, docs, ones, places, False, lengths[:3], 1.0)
    splitter = _kernels.TextSplitter(0, 0, 1, 1, False)
    text = np.frombuffer(b"a b", np.uint8)
    nothing = np.empty(0, np.uint8)
    for rows, offsets in (([0, 2], [0, 3]), ([0, 1], [0, 4]), ([0, 1], [2, 1]), ([1, 0], [0, 3])):
        with pytest.raises(ValueError, match="text"):
            splitter.split(np.array(rows), np.array(offsets), text, nothing)

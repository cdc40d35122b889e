"""Documents that are searched together: a partition of an index, or unindexed texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from alance import _kernels
from alance.base.records import dataclass
from alance.format.index.values import NO_MASK
from alance.ops.search.eligible import MASKED_ROWS, Eligible
from alance.ops.search.text.ranked import NO_RANKED, Ranked
from alance.ops.search.text.scores import NO_DOCS, Collection, matches_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance._kernels import PostingList
    from alance.base.arrays import Bytes, Int64s
    from alance.format.index.text.metadata import Documents
    from alance.ops.search.text.query import TextQuery
    from alance.ops.search.text.scores import Quota, TextStatistics
    from alance.ops.search.text.terms import Terms

RARITY: Final = 4  # with more documents per posting, masks are computed only for postings
ALL_ELIGIBLE: Final = Eligible()


@dataclass(frozen=True, slots=True)
class TextPart:
    """Documents with the posting lists of the requested words.

    Attributes:
        where: path of the posting list file; None for unindexed texts.
        eligible: set of rows whose documents are eligible.
    """

    documents: Documents
    lists: Mapping[str, PostingList]
    where: str | None = None
    eligible: Eligible = ALL_ELIGIBLE

    def docs_of(self, rows: Int64s) -> tuple[Int64s, Int64s]:
        """Find the eligible documents of rows, at most one for each row.

        Args:
            rows: ascending row ids.

        Returns:
            Positions in `rows` of the rows with a document, and the numbers of these documents.
        """
        places, docs = self.documents.docs_of(rows)
        mask = self.eligible.mask(self.documents.ids[docs])
        if not len(mask):
            return places, docs
        chosen = mask.view(np.bool_)
        return places[chosen], docs[chosen]

    def rows_of(self, words: list[str]) -> Int64s:
        """Return the ids of rows with eligible documents that contain any of the words."""
        docs = _kernels.documents_of([self.lists[word] for word in words if word in self.lists])
        ids = self.documents.ids[docs]
        mask = self.eligible.mask(ids)
        return (ids[mask.view(np.bool_)] if len(mask) else ids).view(np.int64)

    def ranked(
        self,
        query: TextQuery,
        terms: Mapping[Any, Terms],
        statistics: TextStatistics,
        quota: Quota,
        rows: Int64s | None = None,
        times: float = 1,
    ) -> Ranked:
        """Score the matches of a query of one column; return at least those that `quota` requires.

        Args:
            terms: terms of each match and phrase of the query.
            rows: ascending row ids; if given, all matches among these rows are returned instead.
            times: weight of the column: word counts and document lengths are multiplied by it.
        """
        documents, mask, only = self.documents, NO_MASK, NO_DOCS
        if rows is None:
            words = dict.fromkeys(word for own in terms.values() for word in own.words)
            mask = self._mask([self.lists[word] for word in words if word in self.lists])
        else:
            only = np.sort(self.docs_of(rows)[1]).astype(np.uint32)
            if not len(only):
                return NO_RANKED
        of_index = self.where is not None
        collection = Collection(
            documents.lengths, documents.ids, documents.is_ordered, mask, of_index, only, times
        )
        matches = matches_of(query, terms, self.lists, collection, statistics, quota)
        elements = documents.elements
        places = None if elements is None else elements[matches.docs]
        return Ranked(documents.ids[matches.docs], matches.scores, places)

    def _mask(self, lists: list[PostingList]) -> Bytes:
        """Return the mask of eligible documents.

        If the mask is not memoized, it may omit documents without any of the words.
        """
        ids, eligible = self.documents.ids, self.eligible
        is_remembered = eligible.masks is not None and len(ids) <= MASKED_ROWS
        if eligible.has_all or is_remembered or RARITY * sum(map(len, lists)) >= len(ids):
            return eligible.mask_of_part(self.where, ids)
        docs = _kernels.documents_of(lists)
        of_docs = eligible.mask(ids[docs])
        if of_docs.all():  # also if it is empty
            return NO_MASK
        mask = np.zeros(len(ids), np.uint8)
        mask[docs] = of_docs
        return mask

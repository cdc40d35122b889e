"""Documents that are searched together: of a partition of an index, or texts that were read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from alance import _kernels
from alance.format.index.values import NO_MASK
from alance.ops.search.eligible import MASKED_ROWS, Eligible
from alance.ops.search.text.ranked import NO_ROWS, Ranked
from alance.ops.search.text.scores import NO_DOCS, Collection, matches_of
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance._kernels import PostingList
    from alance.arrays import Bytes, Int64s
    from alance.format.index.text.metadata import Documents
    from alance.ops.search.text.query import TextQuery
    from alance.ops.search.text.scores import Quota, Statistics
    from alance.ops.search.text.terms import Terms

FEW: Final = 4  # documents with the words are so many times fewer than all
EVERY: Final = Eligible()


@dataclass(frozen=True, slots=True)
class TextPart:
    """Documents, and the posting lists of the words that are asked for.

    Attributes:
        where: the file of the posting lists; None: of texts that were read.
        eligible: which documents count.
    """

    documents: Documents
    lists: Mapping[str, PostingList]
    where: str | None = None
    eligible: Eligible = EVERY

    def docs_of(self, rows: Int64s) -> tuple[Int64s, Int64s]:
        """Which of some rows, which ascend, have documents here that count, by place; and these."""
        places, docs = self.documents.docs_of(rows)
        mask = self.eligible.mask(self.documents.ids[docs])
        if not len(mask):
            return places, docs
        chosen = mask.view(np.bool_)
        return places[chosen], docs[chosen]

    def rows_of(self, words: list[str]) -> Int64s:
        """The rows of documents that count and have any of some words."""
        docs = _kernels.documents_of([self.lists[word] for word in words if word in self.lists])
        ids = self.documents.ids[docs]
        mask = self.eligible.mask(ids)
        return (ids[mask.view(np.bool_)] if len(mask) else ids).view(np.int64)

    def ranked(
        self,
        query: TextQuery,
        terms: Mapping[Any, Terms],
        statistics: Statistics,
        quota: Quota,
        rows: Int64s | None = None,
        times: float = 1,
    ) -> Ranked:
        """The rows that match a query of one column, those of a quota at least.

        Args:
            terms: of each match and phrase that the query is made of.
            rows: the only ones that are asked for, ascending; then all of them that match.
            times: what each token counts.
        """
        documents, mask, only = self.documents, NO_MASK, NO_DOCS
        if rows is None:
            words = dict.fromkeys(word for own in terms.values() for word in own.words)
            mask = self._mask([self.lists[word] for word in words if word in self.lists])
        else:
            only = np.sort(self.docs_of(rows)[1]).astype(np.uint32)
            if not len(only):
                return NO_ROWS
        of_index = self.where is not None
        collection = Collection(
            documents.lengths, documents.ids, documents.is_ordered, mask, of_index, only, times
        )
        matches = matches_of(query, terms, self.lists, collection, statistics, quota)
        elements = documents.elements
        places = None if elements is None else elements[matches.docs]
        return Ranked(documents.ids[matches.docs], matches.scores, places)

    def _mask(self, lists: list[PostingList]) -> Bytes:
        """Which documents count; those without any of the words may be left out, where the mask is
        of no use for another search.
        """
        ids, eligible = self.documents.ids, self.eligible
        is_remembered = eligible.masks is not None and len(ids) <= MASKED_ROWS
        if eligible.has_all or is_remembered or FEW * sum(map(len, lists)) >= len(ids):
            return eligible.mask_of_part(self.where, ids)
        docs = _kernels.documents_of(lists)
        kept = eligible.mask(ids[docs])
        if kept.all():  # or empty
            return NO_MASK
        mask = np.zeros(len(ids), np.uint8)
        mask[docs] = kept
        return mask

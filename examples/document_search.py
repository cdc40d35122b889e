"""A small search service of documents: words and meaning together, in a table on a local S3 server.

python examples/document_search.py
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import alance
from alance.testing.lab import Lab

URI = "s3://lab/documents.lance"
DIM = 64
DOCUMENTS = (
    ("en", "Opening hours", "The library opens at nine and closes at six on weekdays"),
    ("en", "Borrowing", "Books are borrowed for four weeks, films for one"),
    ("en", "Fines", "A book that comes back late costs ten cents a day"),
    ("en", "Lost books", "Whoever loses a book pays its price"),
    ("en", "Reading rooms", "Rooms are open until midnight during examinations"),
    ("de", "Öffnungszeiten", "Die Bücherei öffnet um neun und schließt um sechs"),
    ("de", "Leihfrist", "Bücher werden für vier Wochen ausgeliehen"),
)


def vector_of(text: str) -> npt.NDArray[np.float32]:
    """Where texts with the same triples of letters are near each other; a model would do better."""
    vector = np.zeros(DIM, np.float32)
    lower = f" {text.lower()} "
    for triple in zip(lower, lower[1:], lower[2:], strict=False):
        vector[sum(ord(letter) * 31**place for place, letter in enumerate(triple)) % DIM] += 1
    return vector


@dataclass(frozen=True)
class Answer:
    title: str
    relevance: float


class DocumentSearch:
    """Answers questions; one for all requests of a process."""

    def __init__(self, dataset: alance.Dataset) -> None:
        self._dataset = dataset

    @classmethod
    async def opened(cls, options: dict[str, str]) -> DocumentSearch:
        """With a table of the documents, and an index of their words."""
        languages, titles, texts = (list(column) for column in zip(*DOCUMENTS, strict=True))
        values = pa.array(np.concatenate([vector_of(text) for text in texts]))
        vectors = pa.FixedSizeListArray.from_arrays(values, DIM)
        rows = pa.table({"language": languages, "title": titles, "text": texts, "vector": vectors})
        dataset = await alance.write_dataset(rows, URI, storage_options=options)
        # Some thousand vectors are compared as they are; more want an index, too.
        return cls(await dataset.create_index("text", "INVERTED"))

    async def ask(self, question: str, language: str, k: int = 3) -> list[Answer]:
        """The best documents: both searches at once, and one filter for both."""
        rows = await self._dataset.search(
            text=question,
            vector=vector_of(question),
            k=k,
            metric="cosine",
            filter="language = :language",
            params={"language": language},
            columns=["title"],
        )
        return [
            Answer(title, relevance)
            for title, relevance in zip(
                rows["title"].to_pylist(), rows["_relevance_score"].to_pylist(), strict=True
            )
        ]


async def main(options: dict[str, str]) -> None:
    service = await DocumentSearch.opened(options)
    questions = [("When is it open?", "en"), ("late books", "en"), ("Bücher leihen", "de")]
    answers = await asyncio.gather(*(service.ask(*question) for question in questions))
    for (question, _), best in zip(questions, answers, strict=True):
        print(question)
        for answer in best:
            print(f"{answer.relevance:7.4f}  {answer.title}")


if __name__ == "__main__":
    with Lab() as lab:
        asyncio.run(main(lab.lance_options()))

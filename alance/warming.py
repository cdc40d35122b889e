"""`warm_up`: imports and threads for which a service's first requests would otherwise wait."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Final

from alance.base.calls import public
from alance.io.loop.tasks import all_of
from alance.ops.version.first_use import ENGINE, FILTER, GRAMMAR, LOOK_UP, SQL
from alance.session import Session

if TYPE_CHECKING:
    from alance.io.reading.engine import Engine

# Modules that verbs of a service import at their first call.
VERB_MODULES: Final = (
    "alance.ops.read.keys",
    "alance.expr.keys",
    "alance.ops.read.explain",
    "alance.ops.search.nearest",
    "alance.ops.search.text.search",
    "alance.ops.search.text.search_options",
    "alance.ops.write.write",
    "alance.ops.write.refusals",
    "alance.ops.write.ingest_open",
    "alance.ingesting",
    "alance.writing",
    "alance.ops.merge.insert",
    "alance.ops.rows.delete",
    "alance.ops.rows.update",
    "alance.ops.upkeep.compact",
)
STARTED_S: Final = 5.0  # seconds until all threads of the pool must have started


@public
async def warm_up(*, session: Session | None = None) -> None:
    """Import the modules of takes, scans, searches, appends and changes, and start the threads.

    Without it the first filter that is not simple waits a tenth of a second for the SQL parser, and
    the first append as long for the writers. Await it when a service starts, before or after the
    tables are opened. The work is done in threads, so that the loop is not blocked. A second call
    takes almost no time.

    Cost: no request.

    Args:
        session: session whose threads are started; None: the loop's own session.

    Raises:
        InvalidInputError: the session is closed, or belongs to another event loop.
    """
    engine = (session or Session.of_loop()).engine
    await engine.pool.load(*VERB_MODULES, *FILTER, LOOK_UP, *SQL, *GRAMMAR, *ENGINE)
    await engine.pool.run(_parse)
    await _start_threads(engine)


def _parse() -> None:
    """Build the tables of the SQL parser."""
    from alance.expr.sql.lexical import SqlText

    SqlText("abs(a) = 1 AND b IN ('x') OR c LIKE 'y%' AND d IS NOT NULL", "filter").parse()


async def _start_threads(engine: Engine) -> None:
    """Start all threads of the pool: each gets a job that ends when all jobs run."""
    met = threading.Barrier(engine.pool.num_threads)
    await all_of(engine.pool.run(partial(_meet, met)) for _ in range(engine.pool.num_threads))


def _meet(met: threading.Barrier) -> None:
    try:
        met.wait(STARTED_S)
    except threading.BrokenBarrierError:
        return  # the pool is busy, so its threads have already started

"""All cases that are measured in turn with pylance and Vortex, in the order of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.cases import CASES
from benchmarks.cases_crowds import CROWDS
from benchmarks.cases_engines import ENGINES

if TYPE_CHECKING:
    from benchmarks.cases import Case

ALL: Final[list[Case]] = [*CASES, *CROWDS, *ENGINES]

"""Extracts alance's errors from Spark's, without the stacks of Spark and the JVM."""

from __future__ import annotations

import re
from typing import Final

import alance

# Pattern of an error at the end of a Python traceback; the connector omits the module.
_OURS: Final = re.compile(r"^(?:[\w.]*: )?(?:alance\.errors\.)?(\w+Error): (.*)$", re.MULTILINE)
_PYTHON: Final = re.compile(r"^((?:\w+\.)*\w*(?:Error|Exception|Interrupt)): (.*)$", re.MULTILINE)
_STATE: Final = re.compile(r" SQLSTATE: \w+")


def translated(error: BaseException) -> alance.AlanceError | None:
    """Return the alance error inside a Spark error; None if there is none."""
    if isinstance(error, alance.AlanceError) or not is_of_spark(error):
        return None
    text = str(error)
    for match in reversed(list(_OURS.finditer(text))):
        kind = getattr(alance, match[1], None)
        if isinstance(kind, type) and issubclass(kind, alance.AlanceError):
            notes = []
            for line in text[match.end() + 1 :].splitlines():  # notes follow the text
                if not line.strip() or line[0].isspace() or line.startswith("at "):
                    break
                notes.append(_STATE.sub("", line))
            return kind("\n".join([_STATE.sub("", match[2]), *notes]).strip())
    return None


def error_message(error: BaseException) -> str:
    """Return the last Python error in the text of a Spark error; otherwise its first paragraph."""
    text = str(error)
    python = _PYTHON.findall(text.partition("JVM stacktrace:")[0])
    if python:
        kind, message = python[-1]
        return f"{kind}: {_STATE.sub('', message)}"
    return text.partition("\n\n")[0].partition("\nJVM stacktrace:")[0].strip()


def is_of_spark(error: BaseException) -> bool:
    """True if Spark raised the error, in this process or in the JVM."""
    return type(error).__module__.startswith(("pyspark.errors", "py4j."))

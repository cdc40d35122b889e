"""Monitoring of a service: events for observers, metrics for Prometheus and OpenTelemetry.

    metrics = observe.Metrics()
    observe.add(metrics)
    ...
    metrics.text()  # what Prometheus scrapes

The log `alance.io` has the same events without an observer: requests, retries, commits and steps of
maintenance at DEBUG, and a WARNING when a budget limits work (docs/operations.md).
"""

from typing import TYPE_CHECKING, Final

from alance.base.deferred import lazy
from alance.io.events.observing import (
    CommitEnded,
    MaintenanceStepEnded,
    Observer,
    Reading,
    RequestEnded,
    RetryDecided,
    add,
    readings,
    remove,
)

if TYPE_CHECKING:
    from alance.observe.opentelemetry import OpenTelemetry
    from alance.observe.prometheus import Metrics

_OBSERVE_PLACES: Final = {
    "Metrics": "alance.observe.prometheus",
    "OpenTelemetry": "alance.observe.opentelemetry",
}

__all__ = [
    "CommitEnded",
    "MaintenanceStepEnded",
    "Metrics",
    "Observer",
    "OpenTelemetry",
    "Reading",
    "RequestEnded",
    "RetryDecided",
    "add",
    "readings",
    "remove",
]

if not TYPE_CHECKING:  # otherwise any name would type-check
    __getattr__, __dir__ = lazy(__name__, _OBSERVE_PLACES)

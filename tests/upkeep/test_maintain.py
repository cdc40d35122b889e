"""Maintenance by a policy: what is due, what a run does, and that nothing else changes."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import alance
from alance import MaintenancePolicy, distributed
from alance.format.table.naming import parse_manifest_name
from alance.ops.maintain import lease, run
from alance.ops.maintain.policy import POLICY_PREFIX
from tests.upkeep.others import by_another_writer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from alance.testing.lab import Lab

FEW = MaintenancePolicy(min_small_fragments=4, older_than=timedelta(0), min_old_versions=8)


def rows(start: int, stop: int) -> pa.Table:
    ids = range(start, stop)
    return pa.table({"id": ids, "kind": [n % 7 for n in ids], "text": [f"word{n}" for n in ids]})


async def small_commits(path: Path, count: int, *, indexed: bool = True) -> alance.Dataset:
    """A table of `count` fragments of ten rows, the first four of which are indexed."""
    dataset = await alance.write_dataset(rows(0, 10), path)
    for number in range(1, count):
        if number == 4 and indexed:
            dataset = await dataset.create_scalar_index("id", "BTREE")
            dataset = await dataset.create_scalar_index("kind", "BITMAP")
            dataset = await dataset.create_scalar_index("text", "INVERTED")
        dataset = await dataset.insert(rows(10 * number, 10 * number + 10))
    return dataset


def kinds(report: Any) -> list[tuple[str, str | None, str]]:
    return [(step.kind, step.target, step.outcome) for step in report.steps]


async def test_a_run_joins_fragments_extends_indices_and_removes_versions(tmp_path: Path) -> None:
    dataset = await small_commits(tmp_path / "t", 20)
    report = await dataset.maintain(FEW)
    assert kinds(report) == [
        ("compact", None, "done"),
        ("index", "id_idx", "done"),
        ("index", "kind_idx", "done"),
        ("index", "text_idx", "done"),
        ("cleanup", None, "done"),
    ]
    after = await dataset.checkout_latest()
    assert report.version == after.version
    health = await after.health()
    assert health.num_fragments == 2  # indices tell their first four fragments from the others
    assert health.num_versions == 10
    assert [index.num_unindexed_rows for index in health.indices] == [0, 0, 0]
    await after.validate()
    peer = lance.dataset(str(tmp_path / "t"))
    assert sorted(peer.to_table()["id"].to_pylist()) == list(range(200))
    assert peer.to_table(filter="id = 155")["text"].to_pylist() == ["word155"]
    assert (await after.search_text("word155", columns=["id"]))["id"].to_pylist() == [155]


async def test_a_second_run_finds_nothing_to_do(tmp_path: Path) -> None:
    dataset = await small_commits(tmp_path / "t", 20)
    await dataset.maintain(FEW)
    report = await dataset.maintain(FEW)
    assert report.steps == ()
    assert report.health.last_run is not None
    assert report.health.last_run.steps == ("compact", "index", "index", "index", "cleanup")
    assert "nothing is due" in str(report)


async def test_health_counts_what_a_cleanup_by_the_policy_of_the_table_frees(
    tmp_path: Path,
) -> None:
    dataset = await small_commits(tmp_path / "t", 20, indexed=False)
    health = await dataset.health()
    assert (health.num_reclaimable_bytes, health.num_reclaimable_files) == (None, None)
    health = await dataset.health(reclaimable=True)  # all versions are younger than a week
    assert (health.num_reclaimable_bytes, health.num_reclaimable_files) == (0, 0)
    dataset = await dataset.optimize.compact_files()
    off = MaintenancePolicy(older_than=None)
    dataset = await dataset.update_config(off.to_config())
    health = await dataset.health(reclaimable=True)
    assert (health.num_reclaimable_bytes, health.num_reclaimable_files) == (0, 0)
    dataset = await dataset.update_config(FEW.to_config())
    await dataset.tags.create("first", 1)
    health = await dataset.health(reclaimable=True)
    folder = tmp_path / "t"
    before = {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    assert kinds(await dataset.maintain()) == [("cleanup", None, "done")]
    freed = [size for path, size in before.items() if not path.exists()]
    assert len(freed) > 20
    assert (health.num_reclaimable_bytes, health.num_reclaimable_files) == (sum(freed), len(freed))
    health = await dataset.health(reclaimable=True)
    assert (health.num_reclaimable_bytes, health.num_reclaimable_files) == (0, 0)


async def test_a_dry_run_writes_nothing_and_names_the_same_steps(tmp_path: Path) -> None:
    dataset = await small_commits(tmp_path / "t", 20)
    before = sorted(path.name for path in (tmp_path / "t").rglob("*"))
    planned = await dataset.maintain(FEW, dry_run=True)
    assert sorted(path.name for path in (tmp_path / "t").rglob("*")) == before
    assert {step.outcome for step in planned.steps} == {"planned"}
    assert all(step.num_bytes > 0 and step.num_requests > 0 for step in planned.steps)
    done = await dataset.maintain(FEW)
    assert [step.kind for step in planned.steps] == [step.kind for step in done.steps]
    assert "planned     compact: 20 small fragments can be joined" in str(planned)


async def test_fragments_with_deleted_rows_are_rewritten(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(rows(0, 100), tmp_path / "t", max_rows_per_file=50)
    dataset = await dataset.delete("id < 4")
    assert (await dataset.maintain(FEW)).steps == ()  # 4 of 50 are less than a tenth
    dataset = await dataset.delete("id < 10")
    report = await dataset.maintain(FEW)
    assert kinds(report) == [("compact", None, "done")]
    assert (await (await dataset.checkout_latest()).health()).num_deleted_rows == 0


async def test_rows_beyond_their_time_to_live_are_deleted(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    ages = [timedelta(days=days) for days in (9, 8, 6, 1)]
    for zone in ("UTC", None):
        times = pa.array([now - age for age in ages], pa.timestamp("us", "UTC"))
        if zone is None:
            times = times.cast(pa.timestamp("us"))
        path = tmp_path / f"t{zone}"
        dataset = await alance.write_dataset(pa.table({"id": range(4), "at time": times}), path)
        policy = MaintenancePolicy(ttl_column="at time", ttl=timedelta(days=7), older_than=None)
        report = await dataset.maintain(policy)
        assert kinds(report)[0] == ("expire", None, "done")
        rows_then = await (await dataset.checkout_latest()).to_table(["id"])
        assert rows_then["id"].to_pylist() == [2, 3]


async def test_rows_expire_by_a_column_whose_name_has_to_be_quoted(tmp_path: Path) -> None:
    times = pa.array([datetime(2000, 1, 1), None], pa.timestamp("us"))
    rows = pa.table({"id": [1, 2], "at `time`": times})
    dataset = await alance.write_dataset(rows, tmp_path / "t")
    policy = MaintenancePolicy(ttl_column="`at ``time```", ttl=timedelta(days=7), older_than=None)
    assert kinds(await dataset.maintain(policy))[0] == ("expire", None, "done")
    rows_then = await (await dataset.checkout_latest()).to_table(["id"])
    assert rows_then["id"].to_pylist() == [2]


async def test_a_column_without_times_has_no_time_to_live(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(rows(0, 4), tmp_path / "t")
    policy = MaintenancePolicy(ttl_column="id", ttl=timedelta(days=7))
    with pytest.raises(alance.InvalidInputError, match=r"ttl_column 'id'.*is int64: expected a"):
        await dataset.maintain(policy)
    with pytest.raises(alance.ColumnNotFoundError, match="nothing"):
        await dataset.maintain(MaintenancePolicy(ttl_column="nothing", ttl=timedelta(1)))


async def test_indices_left_by_a_compaction_are_brought_up_to_date(tmp_path: Path) -> None:
    dataset = await small_commits(tmp_path / "t", 8)
    dataset = await dataset.optimize.compact_files(defer_index_remap=True)
    assert (await dataset.health()).has_deferred_remap
    report = await dataset.maintain()
    assert kinds(report)[0] == ("remap", None, "done")
    after = await dataset.checkout_latest()
    assert not (await after.health()).has_deferred_remap
    assert (await after.to_table(filter="id = 33"))["text"].to_pylist() == ["word33"]


async def test_segments_of_an_index_stay_few(tmp_path: Path) -> None:
    dataset = await small_commits(tmp_path / "t", 4, indexed=False)
    dataset = await dataset.create_scalar_index("id", "BTREE")
    for number in range(4, 10):
        dataset = await dataset.insert(rows(10 * number, 10 * number + 10))
        dataset = await dataset.optimize.optimize_indices(num_indices_to_merge=0)
    assert (await dataset.health()).indices[0].num_segments == 7
    policy = MaintenancePolicy(max_index_segments=3, min_small_fragments=None)
    report = await dataset.maintain(policy)
    assert kinds(report) == [("index", "id_idx", "done")]
    after = await dataset.checkout_latest()
    assert (await after.health()).indices[0].num_segments <= 3
    assert (await after.to_table(filter="id >= 95"))["id"].to_pylist() == [95, 96, 97, 98, 99]


async def test_an_index_is_extended_and_merged_in_one_step(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(rows(0, 100), tmp_path / "t")
    dataset = await dataset.create_scalar_index("id", "BTREE")
    await dataset.insert(rows(100, 120))
    policy = MaintenancePolicy(max_index_segments=1, min_small_fragments=None)
    assert kinds(await dataset.maintain(policy)) == [("index", "id_idx", "done")]
    (index,) = (await (await dataset.checkout_latest()).health()).indices
    assert (index.num_segments, index.num_unindexed_rows) == (1, 0)


async def test_tagged_versions_stay_and_are_no_reason_for_a_cleanup(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(rows(0, 10), tmp_path / "t")
    for number in range(12):
        dataset = await dataset.update_config({"a": str(number)})
    policy = MaintenancePolicy(older_than=timedelta(0), min_old_versions=3, retain_versions=1)
    for version in range(1, 11):
        await dataset.tags.create(f"v{version}", version)
    assert (await dataset.maintain(policy)).steps == ()
    for version in range(1, 4):
        await dataset.tags.delete(f"v{version}")
    assert kinds(await dataset.maintain(policy)) == [("cleanup", None, "done")]
    versions = [info.version for info in await dataset.versions()]
    assert versions == [4, 5, 6, 7, 8, 9, 10, 13]


async def test_a_cleanup_removes_a_sixteenth_of_the_versions_or_more(tmp_path: Path) -> None:
    """It reads all of them, for each version that it removes sixteen at most."""
    dataset = await alance.write_dataset(rows(0, 10), tmp_path / "t")
    for number in range(40):
        dataset = await dataset.update_config({"a": str(number)})
    policy = MaintenancePolicy(older_than=timedelta(0), min_old_versions=1, retain_versions=40)
    assert (await dataset.maintain(policy)).steps == ()
    await dataset.update_config({"a": "last"})
    assert kinds(await dataset.maintain(policy)) == [("cleanup", None, "done")]


@pytest.mark.parametrize("hours", [-5, 5])
async def test_versions_that_are_old_by_the_clock_of_the_store_alone_stay(
    tmp_path: Path, hours: int
) -> None:
    """A cleanup judges by the writers' clock; without this it would be due for hours, in vain."""
    dataset = await alance.write_dataset(rows(0, 10), tmp_path / "t")
    for number in range(12):
        dataset = await dataset.update_config({"a": str(number)})
    time = (datetime.now() + timedelta(hours=hours)).timestamp()
    for manifest in (tmp_path / "t" / "_versions").iterdir():
        os.utime(manifest, (time, time))
    policy = MaintenancePolicy(older_than=timedelta(hours=2), min_old_versions=3)
    assert (await dataset.maintain(policy)).steps == ()


async def test_an_age_before_all_time_is_never_reached(tmp_path: Path) -> None:
    times = pa.array([datetime.now(UTC)], pa.timestamp("us", "UTC"))
    dataset = await alance.write_dataset(pa.table({"at": times}), tmp_path / "t")
    policy = MaintenancePolicy(
        ttl_column="at", ttl=timedelta.max, older_than=timedelta.max, min_old_versions=1
    )
    assert (await dataset.maintain(policy)).steps == ()


async def test_a_dry_run_spends_the_budget_as_a_run_does(tmp_path: Path) -> None:
    dataset = await small_commits(tmp_path / "t", 20)
    steps = (await dataset.maintain(FEW, dry_run=True)).steps
    most = max(step.num_requests for step in steps)
    policy = MaintenancePolicy(min_small_fragments=4, older_than=None, max_requests=most)
    planned = await dataset.maintain(policy, dry_run=True)
    done = await dataset.maintain(policy)
    outcomes = [
        "over budget" if step.outcome == "over budget" else "done" for step in planned.steps
    ]
    assert outcomes == [step.outcome for step in done.steps]
    assert outcomes.count("done") == 1


async def test_a_budget_of_bytes_or_requests_ends_a_run(tmp_path: Path) -> None:
    dataset = await small_commits(tmp_path / "t", 20)
    for budget in ({"max_bytes": 100}, {"max_requests": 5}):
        policy = MaintenancePolicy(min_small_fragments=4, older_than=None, **budget)
        report = await dataset.maintain(policy)
        assert {outcome for _, _, outcome in kinds(report)} == {"over budget"}
        assert report.version == dataset.version
    planned = await dataset.maintain(FEW, dry_run=True)
    enough = MaintenancePolicy(min_small_fragments=4, max_bytes=planned.steps[0].num_bytes)
    report = await dataset.maintain(enough)
    assert kinds(report)[0] == ("compact", None, "done")
    assert {outcome for _, _, outcome in kinds(report)[1:]} == {"over budget"}


async def test_a_step_that_others_overtake_is_left_to_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = await small_commits(tmp_path / "t", 8, indexed=False)
    judged, deleted = run.due, iter(range(30, 40))

    async def beside(*arguments: Any) -> Any:
        steps = await judged(*arguments)
        # Changes a fragment that is about to be joined.
        await dataset.delete(f"id = {next(deleted)}")
        return steps

    monkeypatch.setattr(run, "due", beside)
    report = await dataset.maintain(FEW)
    monkeypatch.undo()
    assert ("compact", None, "overtaken") in kinds(report)
    report = await dataset.maintain(FEW)
    assert ("compact", None, "done") in kinds(report)
    assert await (await dataset.checkout_latest()).count_rows() == 110 - next(deleted)


async def test_an_index_that_cannot_be_extended_fails_alone(tmp_path: Path) -> None:
    dataset = await small_commits(tmp_path / "t", 20)
    (segment,) = (index for index in dataset.list_indices() if index["name"] == "text_idx")
    for file in (tmp_path / "t" / "_indices" / segment["uuid"]).iterdir():
        file.write_bytes(b"damaged")
    policy = MaintenancePolicy(min_small_fragments=None, older_than=None)
    report = await dataset.maintain(policy)
    outcomes = {target: outcome for _, target, outcome in kinds(report)}
    assert outcomes == {"id_idx": "done", "kind_idx": "done", "text_idx": "failed"}
    (failed,) = (step for step in report.steps if step.outcome == "failed")
    assert failed.error is not None
    assert segment["uuid"] in failed.error


async def test_the_policy_of_the_table_holds_for_all(tmp_path: Path) -> None:
    dataset = await small_commits(tmp_path / "t", 6, indexed=False)
    assert (await dataset.maintain()).steps == ()
    dataset = await dataset.update_config(MaintenancePolicy(min_small_fragments=5).to_config())
    assert dataset.config == {f"{POLICY_PREFIX}min_small_fragments": "5"}
    report = await dataset.maintain()
    assert report.policy.min_small_fragments == 5
    assert kinds(report) == [("compact", None, "done")]


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("min_fragments", "3", "no such rule; expected one of max_bytes"),
        ("min_small_fragments", "many", "expected an integer"),
        ("older_than", "7 moons", "expected numbers with units"),
        ("max_deleted_share", "2", "max_deleted_share=2.0: expected a share from 0 to 1"),
    ],
)
async def test_a_bad_policy_of_the_table_says_which_key(
    key: str, text: str, message: str, tmp_path: Path
) -> None:
    dataset = await alance.write_dataset(rows(0, 10), tmp_path / "t")
    values = {f"{POLICY_PREFIX}{key}": text}
    with pytest.raises(alance.InvalidInputError, match=message):
        await dataset.update_config(values)
    dataset = await by_another_writer(dataset, values)
    with pytest.raises(alance.InvalidInputError, match=message):
        await dataset.maintain()
    assert (await dataset.update_config(dict.fromkeys(values))).config == {}


shares = st.one_of(st.none(), st.floats(0, 1))
ages = st.one_of(st.none(), st.timedeltas(timedelta(0), timedelta(days=9999)))


@given(
    st.builds(
        MaintenancePolicy,
        target_rows_per_fragment=st.one_of(st.none(), st.integers(1, 1 << 40)),
        min_small_fragments=st.one_of(st.none(), st.integers(2, 1000)),
        max_deleted_share=shares,
        max_unindexed_share=shares,
        older_than=ages,
        max_seconds=st.one_of(st.none(), st.floats(0.1, 1e6)),
    )
)
def test_a_policy_is_the_same_after_the_configuration(policy: MaintenancePolicy) -> None:
    config = {key: value for key, value in policy.to_config().items() if value is not None}
    again = MaintenancePolicy.from_config(config)
    assert again.max_deleted_share == policy.max_deleted_share
    assert again.min_small_fragments == policy.min_small_fragments
    assert again.target_rows_per_fragment == policy.target_rows_per_fragment
    assert again.max_seconds == policy.max_seconds
    if policy.older_than is None:
        assert again.older_than is None
    else:  # kept to the millisecond
        assert again.older_than is not None
        assert abs(again.older_than - policy.older_than) <= timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"min_small_fragments": 1}, "an integer of at least 2"),
        ({"max_deleted_share": 1.5}, "a share from 0 to 1"),
        ({"max_unindexed_rows": -1}, "an integer of at least 0"),
        ({"older_than": 7}, "older_than=7: expected a timedelta"),
        ({"retain_versions": 0}, "a positive integer"),
        ({"retain_versions": None}, "older_than=None lets all versions stay"),
        ({"max_seconds": 0}, "a time above 0 s"),
        ({"ttl": timedelta(1)}, "expected both or neither"),
        ({"min_fragments": 3}, "did you mean 'min_small_fragments'"),
    ],
)
def test_a_wrong_rule_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((alance.InvalidInputError, TypeError), match=message):
        MaintenancePolicy(**arguments)


async def test_two_runs_share_a_lease(tmp_path: Path) -> None:
    dataset = await small_commits(tmp_path / "t", 20)
    first, second = await asyncio.gather(dataset.maintain(FEW), dataset.maintain(FEW))
    busy, idle = (second, first) if first.holder else (first, second)
    assert "done" in {outcome for _, _, outcome in kinds(busy)}
    assert idle.holder is not None or idle.steps == ()
    await (await dataset.checkout_latest()).validate()


async def test_a_run_that_waited_for_a_lease_does_not_do_again_what_the_holder_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has found the step due before the holder did it, and gets the lease after that."""
    dataset = await small_commits(tmp_path / "t", 20)
    acquire = run.acquire

    async def later(snapshot: Any) -> Any:
        monkeypatch.setattr(run, "acquire", acquire)
        await dataset.maintain(FEW)
        return await acquire(snapshot)

    monkeypatch.setattr(run, "acquire", later)
    assert (await dataset.maintain(FEW)).steps == ()


async def test_the_lease_of_a_killed_run_expires(tmp_path: Path) -> None:
    dataset = await small_commits(tmp_path / "t", 20)
    held = await lease.acquire(dataset._snapshot)
    assert isinstance(held, lease.Lease)
    held._renewing.cancel()  # as if the process had died
    report = await dataset.maintain(FEW)
    assert report.holder is not None
    assert kinds(report) == [("compact", None, "leased")]
    (record,) = (tmp_path / "t" / lease.LEASE_FOLDER).iterdir()
    values = json.loads(record.read_text())
    values["expires_at"] = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    record.write_text(json.dumps(values))
    assert ("compact", None, "done") in kinds(await dataset.maintain(FEW))
    assert len(list((tmp_path / "t" / lease.LEASE_FOLDER).iterdir())) == 1


async def test_a_lease_is_given_back_after_a_renewal_without_an_answer(tmp_path: Path) -> None:
    dataset = await small_commits(tmp_path / "t", 20)
    held = await lease.acquire(dataset._snapshot)
    assert isinstance(held, lease.Lease)
    (record,) = (tmp_path / "t" / lease.LEASE_FOLDER).iterdir()
    number = int(record.name.removesuffix(".json"))
    record.with_name(f"{number + 1:020}.json").write_bytes(record.read_bytes())
    await held.release(["compact"], dataset.version)
    last = (await dataset.health()).last_run
    assert last is not None
    assert last.steps == ("compact",)
    assert ("compact", None, "done") in kinds(await dataset.maintain(FEW))


async def test_a_lease_of_a_clock_that_is_wrong_does_not_stop_maintenance(tmp_path: Path) -> None:
    dataset = await small_commits(tmp_path / "t", 20)
    folder = tmp_path / "t" / lease.LEASE_FOLDER
    folder.mkdir()
    future = (datetime.now(UTC) + timedelta(days=400)).isoformat()
    record = {"token": "x", "holder": "elsewhere:1", "expires_at": future, "last_run": None}
    (folder / f"{7:020}.json").write_text(json.dumps(record))
    assert ("compact", None, "done") in kinds(await dataset.maintain(FEW))


async def test_a_damaged_record_says_what_to_do(tmp_path: Path) -> None:
    dataset = await small_commits(tmp_path / "t", 20)
    folder = tmp_path / "t" / lease.LEASE_FOLDER
    folder.mkdir()
    (folder / f"{7:020}.json").write_text("{}")
    assert (await dataset.health()).last_run is None
    with pytest.raises(alance.CorruptFileError, match=r"no record of maintenance.*delete the obj"):
        await dataset.maintain(FEW)


async def test_a_run_with_nothing_to_do_is_three_requests(lab: Lab) -> None:
    uri, options = "s3://lab/maintained.lance", lab.lance_options()
    dataset = await alance.write_dataset(rows(0, 10), uri, storage_options=options)
    await dataset.maintain()  # reads the manifest
    policy = MaintenancePolicy(older_than=timedelta(0), min_old_versions=1, retain_versions=1)
    for later in (["LIST"] * 2, ["LIST", "LIST", "GET"]):
        with lab.recording() as seen:
            assert (await dataset.maintain()).steps == ()
        assert [record["op"] for record in seen.records] == later
        dataset = await dataset.update_config({"a": "b"})
        await dataset.maintain(policy)


async def test_an_answer_that_is_lost_costs_no_lease(lab: Lab) -> None:
    uri, options = "s3://lab/answers.lance", lab.lance_options()
    dataset = await alance.write_dataset(rows(0, 10), uri, storage_options=options)
    for number in range(1, 6):
        dataset = await dataset.insert(rows(10 * number, 10 * number + 10))
    fault = {"action": "apply_reset", "method": "PUT", "key": lease.LEASE_FOLDER}
    lab.config(faults=[fault])
    report = await dataset.maintain(FEW)
    lab.calm()
    assert kinds(report)[0] == ("compact", None, "done")
    last = (await dataset.health()).last_run
    assert last is not None
    assert last.steps[0] == "compact"


async def test_a_sink_maintains_its_table(tmp_path: Path) -> None:
    dataset = await small_commits(tmp_path / "t", 8)
    async with alance.ingest(tmp_path / "t", maintain=FEW) as sink:
        for number in range(8, 48):
            await sink.write(rows(10 * number, 10 * number + 10))
            await sink.flush()
    assert sink.maintenance is not None
    assert sink.maintenance.num_failures == 0
    health = await (await dataset.checkout_latest()).health()
    assert health.num_rows == 480
    assert (await dataset.maintain(FEW, dry_run=True)).steps == ()
    assert health.num_versions <= 20
    assert max(index.num_unindexed_rows for index in health.indices) <= 48
    assert lance.dataset(str(tmp_path / "t")).count_rows() == 480


async def test_a_sink_takes_one_kind_of_upkeep(tmp_path: Path) -> None:
    with pytest.raises(alance.InvalidInputError, match="expected one of them"):
        alance.ingest(tmp_path / "t", maintain=True, auto_compact=8)
    with pytest.raises(alance.InvalidInputError, match="maintain='yes': expected a Maintenance"):
        alance.ingest(tmp_path / "t", maintain="yes")  # type: ignore[arg-type]


async def test_maintenance_in_the_background_ends_with_a_last_run(tmp_path: Path) -> None:
    dataset = await small_commits(tmp_path / "t", 8)
    async with dataset.maintaining(FEW, interval=1000) as upkeep:
        for number in range(8, 30):
            dataset = await dataset.insert(rows(10 * number, 10 * number + 10))
    metrics = upkeep.metrics
    assert metrics is not None
    assert metrics.num_failures == 0
    assert metrics.last_report is not None
    assert (await upkeep.dataset.maintain(FEW, dry_run=True)).steps == ()
    assert await upkeep.dataset.count_rows() == 300


@pytest.mark.parametrize("behind", [0, 1, 2])
async def test_a_run_on_a_table_that_is_dropped_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behind: int
) -> None:
    """Dropped before a step, or as the last step ends."""
    dataset = await small_commits(tmp_path / "t", 6)
    do, steps = run._Run._do, 0

    async def drop_before(self: Any, step: Any) -> None:
        nonlocal steps
        if steps == behind:
            await alance.drop(tmp_path / "t")
        steps += 1
        await do(self, step)

    monkeypatch.setattr(run._Run, "_do", drop_before)
    with pytest.raises(alance.NotFoundError):
        await dataset.maintain(MaintenancePolicy(min_small_fragments=4, older_than=None))
    assert steps > behind
    assert not (tmp_path / "t").exists()


async def test_a_run_that_is_cancelled_leaves_no_file(tmp_path: Path) -> None:
    """Cancelled after more and more turns of the loop, at old and new versions alike."""
    for turns in range(0, 400, 23):
        path = tmp_path / str(turns)
        dataset = await small_commits(path, 6)
        task = asyncio.create_task(dataset.maintain(FEW))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        after = await dataset.checkout_latest()
        await after.validate()
        assert await after.count_rows() == 60
    names = [path.name for path in (path / "_versions").iterdir()]
    assert all(parse_manifest_name(name) is not None for name in names)


async def test_workers_run_the_tasks_and_the_run_commits_them(tmp_path: Path) -> None:
    dataset = await small_commits(tmp_path / "t", 20)
    calls: list[list[str]] = []
    waiting = asyncio.Event()

    async def run_tasks(tasks: Sequence[Any]) -> list[Any]:
        calls.append([type(task).__name__ for task in tasks])
        if len(calls) == 4:  # all three indices wait at once
            waiting.set()
        if len(calls) > 1:
            await waiting.wait()
        elsewhere = await alance.dataset(tmp_path / "t", session=alance.Session())
        sent = pickle.loads(pickle.dumps(list(tasks)))
        return pickle.loads(pickle.dumps([await task.execute(elsewhere) for task in sent]))

    report = await distributed.maintain(dataset, distributed.Workers(run_tasks, 2), FEW)
    assert calls == [["CompactionTask"] * 2, *[["ExtensionTask"]] * 3]
    steps = kinds(report)
    assert {outcome for _, _, outcome in steps} == {"done"}
    assert (steps[0][0], steps[-1][0]) == ("compact", "cleanup")
    assert {target for _, target, _ in steps[1:-1]} == {"id_idx", "kind_idx", "text_idx"}
    after = await dataset.checkout_latest()
    assert report.version == after.version
    assert [index.num_unindexed_rows for index in (await after.health()).indices] == [0, 0, 0]
    await after.validate()
    assert (await distributed.maintain(dataset, distributed.Workers(run_tasks), FEW)).steps == ()

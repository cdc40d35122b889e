"""Versions of a table: opening, inspection, and the commit of the next version.

All other rooms work on a `Snapshot` and the `FragmentHandle`s of its fragments. `learn` and
`lineage` read facts that the manifest lacks. `projection` maps the columns of a read to fields. All
methods that change a table end in `commits`.

Where to change what:
    references to versions, and their lookup: `opening`
    commit options: `options`; retries after conflicts: `commits.with_retries`
    facts about a fragment: `handle`
    meta columns: names in `projection`, values in `read.rows`
    late imports: `first_use`
"""

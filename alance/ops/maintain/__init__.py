"""Maintenance of a table by a policy: the steps that are due, their cost, and their execution.

`policy` has the rules, `health` the state to which they apply, `steps` the table of steps, `run`
one run, and `lease` the record that prevents replicas from doing the same work. The work itself is
done by the rooms `upkeep`, `index`, `cleanup` and `rows`.

Where to change what:
    when a step is due, and what it costs: its `due` in `steps`
    a new step: a function in `steps`, a line in `MAINTENANCE_STEPS`, its rules in `policy`
"""

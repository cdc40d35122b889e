"""Maintenance of a table by a policy: which steps are due, what they cost, and how they are done.

`policy` has the rules, `health` the state that they judge, `steps` the table of steps, `run` one
run, `lease` the record that keeps replicas from doing the same work. The work itself is that of the
rooms `upkeep`, `index`, `cleanup` and `rows`.

Where to change what:
    when a step is due, and what it costs: its `due` in `steps`
    a new step: a function in `steps`, a line in `STEPS`, its rules in `policy`
"""

"""What ``gur init`` writes: a commented metajob file of each usage pattern, to be edited by its
user.

Texts, not generated from the schema: they are read by people first. A test reads each of them with
the parser.
"""

from __future__ import annotations

from typing import Final

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.trips.metajobs import UsagePattern

_TIMES: Final = """\
# Times: "tomorrow 07:00", "monday 07:00", "+2h", "2030-11-09T07:00", "07:00_11/09/2030" (month
# first) or epoch seconds, each optionally with a zone: "07:00 America/Los_Angeles". For times
# without one this zone holds; without this line, that of your computer.
# zone = "America/Los_Angeles"
"""

_COMMON: Final = """\
# What makes one itinerary better than another: "earliest_finish" or "lowest_cost".
objective = "earliest_finish"

# Most the whole trip may cost. Leave it out for no limit.
# budget_credits = 250.5

# What to try, in order, when a site fails before the start: "replace_leg" (same time, another
# machine), "shrink" (down to the minimums), "move_trip" (another time). Empty: give up.
"""

_SINGLE: Final = (
    """\
# A metajob of the pattern `single`: it runs on ONE of the machines below, the first that is free.
#
#   gur quote FILE    show where, when and for how much, and book nothing
#   gur book FILE     book it

name = "render"
usage_pattern = "single"

# Nodes, all on the one machine, and how long it runs ("90m", "2h", "1h30m", "01:30:00" or seconds).
nodes_total = 4
duration = "1h30m"

"""
    + _TIMES
    + """\
earliest_start = "now"
latest_end = "+2d"

# true: queue a copy at every machine; exactly one of them runs.
race = false

"""
    + _COMMON
    + """\
healing = ["replace_leg", "move_trip"]

# What runs. A list: program and arguments, never a shell line.
[task]
command = ["./render", "--scene", "scene.txt", "--out", "picture.ppm"]
# Command that prepares the program at the site before the start.
# compile = ["make", "render"]
# Brought to the site before the start, from paths relative to this file.
# stage_in = ["render", "scene.txt"]
# Brought home after the end, into the output folder of the trip.
stage_out = ["picture.ppm"]

# Where it may run, the preferred machine first.
[[machines]]
name = "datastar655"
nodes_max = 158
# account = "sys200"              # who is charged; without it the site's default for you
# login = "kenneth"               # your login there; without it as the site maps you
# email_notify = "kenneth@example.org"

[[machines]]
name = "purduesp"
nodes_max = 8
"""
)

_MULTIPLE: Final = (
    """\
# A metajob of the pattern `multiple`: ALL machines below at the same moment (co-scheduled).
#
#   gur quote FILE    show where, when and for how much, and book nothing
#   gur book FILE     book it: every leg, or none

name = "ocean-atmosphere"
usage_pattern = "multiple"

# Nodes over all machines together, and how long it runs ("90m", "2h", "01:30:00" or seconds).
nodes_total = 12
duration = "2h"

"""
    + _TIMES
    + """\
earliest_start = "tomorrow 07:00"
latest_end = "tomorrow 18:00"

# true: give most nodes to the least loaded machine. false: to the first below.
preference_reorder = true

# Added to the end of each reservation, so that a clock that is late costs no run time.
guard = "5s"

"""
    + _COMMON
    + """\
healing = ["replace_leg", "shrink", "move_trip"]

# What every leg runs, unless its machine says otherwise. Each leg learns of the others through its
# environment (variables GRID_...).
[task]
command = ["./model"]
stage_out = ["flux.log"]
# true: begin only when every leg is prepared (after "compile"), all at once.
barrier = true
[task.environment]
MODEL_STEPS = "100"

# Where to go, in order of preference; nodes_min to nodes_max nodes at each.
[[machines]]
name = "datastar655"
nodes_min = 1
nodes_max = 158
[machines.task]
command = ["./ocean", "--grid", "fine"]

[[machines]]
name = "purduesp"
nodes_min = 1
nodes_max = 2
[machines.task]
command = ["./atmosphere"]

# What to take, in this order, when the trip as asked for cannot be booked.
[[alternatives]]
nodes_total = 8

[[alternatives]]
latest_end = "+3d"

# Whom to tell of what: "booked", "starts_soon", "failed", "healed", "done".
[notifications]
emails = []
events = ["booked", "starts_soon", "failed"]
before_start = "15m"
"""
)

_PIPELINE: Final = (
    """\
# A metajob of the pattern `pipeline`: one stage AFTER the other, with time to move data between.
#
#   gur quote FILE    show where, when and for how much, and book nothing
#   gur book FILE     book it: every stage, or none

name = "simulate-and-draw"
usage_pattern = "pipeline"

"""
    + _TIMES
    + """\
earliest_start = "now"
latest_end = "+3d"

# Kept free between two stages for moving data, unless a stage says otherwise.
transfer = "10m"

"""
    + _COMMON
    + """\
healing = ["replace_leg", "move_trip"]

# The machines of the stages, and how many nodes are possible at each.
[[machines]]
name = "datastar655"
nodes_max = 158

[[machines]]
name = "purduesp"
nodes_max = 8

# The stages, in order.
[[stages]]
name = "simulate"
machine = "datastar655"
nodes = 10
duration = "2h"
[stages.task]
command = ["./simulate", "--out", "field.dat"]

[[stages]]
name = "draw"
# It may run at either; the first is preferred.
machines = ["purduesp", "datastar655"]
nodes = 2
duration = "30m"
# Longest wait after the transfer. Leave it out to wait as long as the window allows.
slack = "4h"
# Moved here from the folder of the stage before.
receive = ["field.dat"]
[stages.task]
command = ["./draw", "field.dat", "picture.ppm"]
stage_out = ["picture.ppm"]
"""
)

_EXAMPLES: Final = {
    UsagePattern.SINGLE: _SINGLE,
    UsagePattern.MULTIPLE: _MULTIPLE,
    UsagePattern.PIPELINE: _PIPELINE,
}


def example_metajob(pattern: UsagePattern | str) -> str:
    """A commented TOML file of ``pattern``; ``InputError`` names the patterns when there is no such
    one."""
    try:
        return _EXAMPLES[UsagePattern(str(pattern).lower())]
    except ValueError:
        known = ", ".join(p.value for p in UsagePattern)
        raise InputError(
            f"there is no usage pattern {str(pattern)[:40]!r}", hint=f"choose one of {known}"
        ) from None

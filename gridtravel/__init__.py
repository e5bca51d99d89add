"""Grid travel: the grid you can book from a laptop.

The folders of the checkout are linked here, so that they are imported as ``gridtravel.agents`` and
so on: `agents` and `manager` are names that other people's packages install as well. What each of
them holds: docs/architecture.md.
"""

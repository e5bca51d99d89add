"""Draw the inside of each folder by its imports: `make rooms`.

A room is a folder or a file directly below a package. Rooms stand in an order in which each imports
only rooms below it, which exists because no import runs in a circle (import-linter checks that).
"""

from __future__ import annotations

import sys
from graphlib import TopologicalSorter

import grimp

NAME = "gridtravel"


def rooms_of(graph: grimp.ImportGraph, package: str) -> dict[str, set[str]]:
    """Each room of a package with the rooms that its files name in an import."""
    rooms = graph.find_children(package)
    room_of = {file: room for room in rooms for file in (room, *graph.find_descendants(room))}
    named = {
        room: {
            room_of[name]
            for file in (room, *graph.find_descendants(room))
            for name in graph.find_modules_directly_imported_by(file)
            if name in room_of
        }
        for room in sorted(rooms)
    }
    return {room: others - {room} for room, others in named.items()}


def main() -> None:
    """Print one block for each folder of the checkout."""
    graph = grimp.build_graph(NAME, cache_dir=None)
    for package in sorted(graph.find_children(NAME)):
        rooms = rooms_of(graph, package)
        files = len(graph.find_descendants(package) | {package})
        sys.stdout.write(f"{package.removeprefix(NAME + '.')}/  {files} files\n")
        for room in reversed(list(TopologicalSorter(rooms).static_order())):
            inside = len(graph.find_descendants(room))
            size = f"{inside} files" if inside else ""
            below = ", ".join(sorted(each.rpartition(".")[2] for each in rooms[room]))
            sys.stdout.write(f"    {room.rpartition('.')[2]:<18} {size:<9} {below}".rstrip() + "\n")


if __name__ == "__main__":
    main()

"""The calendar manager: to its parent what an agent is to it, and coordinator of its children."""

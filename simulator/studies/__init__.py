"""Published studies, each one command: ``gurlab study NAME --out DIR`` (docs/studies.md)."""

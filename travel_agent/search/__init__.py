"""How a start is looked for: sweep, probe, pipelines, alternatives."""

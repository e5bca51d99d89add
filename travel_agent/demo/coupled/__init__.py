"""Two climate models that run as one program at two sites: the paper's own example of a metajob.

They are what a user brings along: plain files, the standard library, nothing of the grid but the
``GRID_`` variables a site gives to a leg. ``gur demo`` carries them to the sites as files.
"""

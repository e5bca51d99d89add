"""Back ends under the local scheduler: what really starts, limits and ends tasks on nodes.

``base`` is the port. ``host`` runs processes of this machine, ``simulated`` is its twin in virtual
time; Slurm and Grid Engine will be further modules behind the same port. None of them decides what
runs when: that is the scheduler's business.
"""

"""``catalina``, the local client of one site: the paper's commands over the agent's Unix socket.

The shell (``local_sched.catalina.main`` and the ``*_commands`` modules) holds the command line; the
modules behind it take a ``Session`` and return an ``Answer``, whatever carries the session.
"""

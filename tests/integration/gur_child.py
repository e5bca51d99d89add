"""The real ``gur``, except that it sends itself a signal at a step of its negotiation.

    python gur_child.py STEP COUNT SIGNAL  WORDS OF GUR ...

The signal comes when ``STEP`` is told for the ``COUNT``-th time, at the very instruction: no test
has to be quick or lucky.
"""

from __future__ import annotations

import os
import sys

from travel_agent import rendering
from travel_agent.cli import main
from travel_agent.news import News


def arm(step: str, count: int, number: int) -> None:
    """Put the signal where the negotiation is written to the screen."""
    told = rendering.news_line
    left = count

    def tell(news: News) -> str:
        nonlocal left
        if news.step.value == step:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), number)
        return told(news)

    rendering.news_line = tell


if __name__ == "__main__":
    arm(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    sys.argv = ["gur", *sys.argv[4:]]
    main()

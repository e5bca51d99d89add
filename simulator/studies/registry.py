"""All studies by name: one dictionary, in the order of ``gurlab study --list``."""

from __future__ import annotations

from typing import Final

from gridtravel.gridcore.errors import InputError
from gridtravel.simulator.studies import (
    economy_policies,
    figure_2,
    figure_5,
    figure_6_7,
    figure_8_9,
    kth,
    libra_dollar,
    libra_table_1,
    qops,
    trials,
)
from gridtravel.simulator.studies.study import Study

STUDIES: Final = {
    study.name: study
    for study in (
        Study(
            name="imprecise-figure-2",
            title="six slot configurations on one cluster (calendar paper, figures 2 to 4)",
            log=kth.LOG,
            run=figure_2.run,
        ),
        Study(
            name="imprecise-figure-5",
            title="imprecise calendars against EASY backfilling (figure 5)",
            log=kth.LOG,
            run=figure_5.run,
        ),
        Study(
            name="imprecise-figure-6-7",
            title="six partitions apart and as one grid (figures 6 and 7)",
            log=figure_6_7.LOG,
            run=figure_6_7.run,
        ),
        Study(
            name="imprecise-figure-8-9",
            title="ten clusters below one manager (figures 8 and 9)",
            log=figure_8_9.LOG,
            run=figure_8_9.run,
        ),
        Study(
            name="libra-table-1",
            title="Libra against first in, first out (Libra, table 1)",
            log="",
            run=libra_table_1.run,
            seeds=200,
        ),
        Study(
            name="libra-dollar",
            title="Libra+$ against Libra and backfilling (Libra+$, figures 2 to 6)",
            log=trials.LOG,
            run=libra_dollar.run,
            seeds=5,
        ),
        Study(
            name="policies",
            title="all policies with prices on five logs; what understating a budget earns",
            log=trials.LOG,
            run=economy_policies.run,
            seeds=5,
        ),
        Study(
            name="qops",
            title="tolerance, slack and kills under QoPS (QoPS slides)",
            log=trials.LOG,
            run=qops.run,
            seeds=3,
        ),
    )
}


def study_named(name: str) -> Study:
    """The study called ``name``; ``InputError`` lists the known."""
    study = STUDIES.get(name)
    if study is None:
        raise InputError(f"unknown study {name[:40]!r}", hint=f"known: {', '.join(STUDIES)}")
    return study

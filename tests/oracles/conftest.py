"""What the oracles share: the kept files, and how much of them a run looks at."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.oracles.frozen_files import Frozen


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that asks for one of a module's ``PARTS`` (name -> what it is) each in turn: all
    with ``make oracles``, else those of its ``SAMPLE``.
    """
    if "part" not in metafunc.fixturenames:
        return
    option = metafunc.config.getoption
    is_whole = option("--oracle-all") or option("--oracle-update")
    chosen = metafunc.module.PARTS if is_whole else metafunc.module.SAMPLE
    metafunc.parametrize("part", chosen)


@pytest.fixture
def frozen(pytestconfig: pytest.Config) -> Frozen:
    """What the answers are compared with, or become."""
    return Frozen(is_update=bool(pytestconfig.getoption("--oracle-update")))


@pytest.fixture
def silent() -> Iterator[None]:
    """Nothing is logged meanwhile; loggers that are made quiet for good are heard again later."""
    before, handlers = _levels(), list(logging.root.handlers)
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)
    for name in _levels():
        logging.getLogger(name).setLevel(before.get(name, logging.NOTSET))
    logging.root.handlers[:] = handlers


def _levels() -> dict[str, int]:
    """Every logger's own."""
    there = logging.root.manager.loggerDict
    return {name: each.level for name, each in there.items() if isinstance(each, logging.Logger)}

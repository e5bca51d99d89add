"""What site.toml says about upkeep: read into plain values, or refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridtravel.agents.config.site_file import SiteConfig, load_site_config
from gridtravel.agents.maintenance_rules import MaintenanceRules, NodeFailureRule
from gridtravel.gridcore.booking.calendars import Calendar
from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.system.notify import CommandNotifier, LogNotifier, SmtpNotifier
from gridtravel.local_sched.scheduling.reservation_jobs import AccessRule
from gridtravel.local_sched.scheduling.site_scheduler import site_scheduler

HEAD = '[site]\nname = "lab"\ntime_zone = "Europe/Berlin"\n[[classes]]\nname = "n"\nnodes = 8\n'
STANDING = """\
[[standing]]
name = "class"
start = "0 8 * * 1-5"
duration_s = 3600
nodes = 4
"""
SHORTPOOL = """\
[queue]
depth = 1
[[shortpools]]
class = "n"
nodes = 2
latency_s = 600
duration_s = 300
"""


def read(folder: Path, text: str) -> SiteConfig:
    """The configuration with these tables."""
    path = folder / "site.toml"
    path.write_text(HEAD + text)
    return load_site_config(path)


def test_nothing_said_is_nothing_done(tmp_path: Path) -> None:
    """The defaults: no rules, no mail, no hooks, jobs on failed nodes go on."""
    config = read(tmp_path, "")
    assert config.maintenance == MaintenanceRules()
    assert isinstance(config.notifier, LogNotifier)
    assert config.shortpools == {}


def test_everything_said_is_read(tmp_path: Path) -> None:
    """Rules with the site's zone, access, shortpools by class, hooks and notices."""
    text = """
[standing.access]
users = ["eve"]
limit_max_s = 600
[notify]
command = ["/bin/mailer", "-x"]
notices_max = 1
interval_s = 60
[hooks]
prologue = ["/bin/begin"]
limit_s = 5
"""
    config = read(tmp_path, SHORTPOOL.replace("1\n[[", '1\non_node_failure = "requeue"\n[[')
                  + STANDING + text)  # fmt: skip
    (rule,) = config.maintenance.standing
    assert (rule.name, rule.nodes, rule.start_rule.zone) == ("class", 4, "Europe/Berlin")
    assert rule.access == AccessRule(owners=("eve",), limit_max_s=600)
    assert config.maintenance.on_node_failure is NodeFailureRule.REQUEUE
    assert (config.maintenance.notices_max, config.maintenance.notice_interval_s) == (1, 60)
    assert (config.maintenance.prologue, config.maintenance.hook_limit_s) == (("/bin/begin",), 5)
    assert isinstance(config.notifier, CommandNotifier)
    calendar = Calendar("lab", config.classes)
    scheduler = site_scheduler(calendar, config.scheduler, shortpools=config.shortpools)
    assert scheduler.pools["n"].shortpool is not None
    smtp = read(tmp_path, '[notify]\nsmtp_host = "mail"\nsender = "grid@lab"\n')
    assert isinstance(smtp.notifier, SmtpNotifier)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (STANDING + "duration_h = 1\n", "standing.0.duration_h: this key is not known"),
        (STANDING.replace("3600", '"1h"'), "standing.0.duration_s"),
        (STANDING.replace("3600", "0"), "standing.0.duration_s"),
        (STANDING.replace("0 8 * * 1-5", "0 8 * *"), "standing.0: a start rule has five fields"),
        (STANDING.replace("0 8 * * 1-5", "0 25 * * *"), "standing.0: a hour is 0 to 23"),
        (STANDING + 'time_zone = "PST"\n', "standing.0: "),
        (STANDING.replace('"class"', '"a b"'), "standing.0: the name"),
        (STANDING + "[standing.access]\nlimit_s = 5\n", "standing.0.access.limit_s"),
        (STANDING * 2, "standing.1: there is a rule 'class' already"),
        (SHORTPOOL + "latency_h = 8\n", "shortpools.0.latency_h"),
        (SHORTPOOL.replace('"n"', '"m"'), "shortpools.0.class: no class 'm'"),
        (SHORTPOOL.replace("nodes = 2", "nodes = 9"), "shortpools.0.nodes: class n has 8"),
        (SHORTPOOL.replace("depth = 1", 'depth = "all"'), "shortpools.0: a shortpool moves"),
        ('[queue]\non_node_failure = "panic"\n', "queue.on_node_failure"),
        ('[notify]\nsmtp_host = "mail"\n', "notify.sender"),
        ('[notify]\nsmtp_host = "mail"\ncommand = ["/x"]\n', "not both"),
        ('[notify]\ncommand = ["mailer"]\n', "notify.command"),
        ('[hooks]\nprologue = "run me"\n', "hooks.prologue"),
        ("[hooks]\nlimit_s = 31\n", "hooks.limit_s"),
        ("[hooks]\nlimit_min = 1\n", "hooks.limit_min: this key is not known"),
    ],
)
def test_mistakes_are_refused_by_name(tmp_path: Path, text: str, named: str) -> None:
    """Unknown keys, wrong units, contradictions: one message with the file and the table."""
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert named in str(caught.value)
    assert str(tmp_path / "site.toml") in str(caught.value)

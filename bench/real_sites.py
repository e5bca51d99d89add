"""Three real node agents, each a process with its journal on the disk, behind mutual TLS; and a
bare echo beside each, over the same kind of channel.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import grpc.aio

from gridtravel.agents.config.site_file import load_site_config
from gridtravel.agents.daemon import run_agent
from gridtravel.gridio.rpc.server.grid_server import SERVER_OPTIONS
from gridtravel.gridio.system.clock import SystemClock
from gridtravel.gridio.trust.credentials import Credential, load_credential
from gridtravel.gridio.trust.gridmap import GridMap, grid_map_entry, write_grid_map
from tests.support.certificate_scenes import a_site, a_user, an_authority

SITES = ("alpha", "beta", "gamma")
ECHO = "/bench.Echo/Echo"


def bare_echo(credential: Credential) -> tuple[grpc.aio.Server, int]:
    """A server that gives back what it gets, by gRPC alone, and its port; not started yet."""
    bare = grpc.aio.server(options=SERVER_OPTIONS)

    async def echo(content: bytes, _: object) -> bytes:
        return content

    service, method = ECHO.strip("/").split("/")
    handler = grpc.unary_unary_rpc_method_handler(echo)
    bare.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {method: handler}),)
    )
    secrets = grpc.ssl_server_credentials(
        [(credential.key_pem, credential.cert_pem)], credential.root_pem, True
    )
    return bare, bare.add_secure_port("127.0.0.1:0", secrets)


async def serve(folder: Path) -> None:
    """One site's process: a bare echo beside the real daemon; ends with its standard input."""
    bare, port = bare_echo(load_credential(folder / "credential"))
    sys.stdout.write(f"{port}\n")
    await bare.start()
    daemon = asyncio.create_task(run_agent(load_site_config(folder / "site.toml")))
    await asyncio.to_thread(sys.stdin.read)
    daemon.cancel()
    await asyncio.gather(daemon, return_exceptions=True)
    await bare.stop(None)


def _lay_out(folder: Path, nodes: int) -> Credential:
    now = SystemClock().now()
    authority = an_authority(folder, now=now)
    ada = a_user(authority, folder, login="ada", now=now)
    grid_map = GridMap([grid_map_entry(ada.subject, ["ada"])])
    for site in SITES:
        home = folder / f"site-{site}"
        home.mkdir()
        a_site(authority, folder, name=site, now=now)
        (folder / site).rename(home / "credential")
        write_grid_map(home / "grid-mapfile", grid_map)
        (home / "site.toml").write_text(
            f'[site]\nname = "{site}"\nlog_level = "error"\n\n'
            f'[[classes]]\nname = "n"\nnodes = {nodes}\n\n'
            '[reservations]\nper_account = -1\n\n[host]\nrun_as = "daemon"\n',
            encoding="utf-8",
        )
    return ada


@contextmanager
def sites_running(
    nodes: int,
) -> Iterator[tuple[list[tuple[int, str]], Credential, Path]]:
    """The sites with so many nodes each: the port of each echo and the endpoint of each agent, the
    credential of their user, and a folder with the user's ``laptop/sites.toml``.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ada = _lay_out(folder, nodes)
        command = [sys.executable, "-m", "bench.real_sites"]
        servers = [
            subprocess.Popen(
                [*command, str(folder / f"site-{site}")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for site in SITES
        ]
        try:
            ports = []
            for server in servers:
                assert server.stdout is not None
                port = int(server.stdout.readline())
                ports.append((port, server.stdout.readline().split()[1]))
            laptop = folder / "laptop"
            laptop.mkdir()
            (laptop / "sites.toml").write_text(
                "\n".join(
                    f'[machines.{site}]\nsite = "{site}"\nendpoint = "{endpoint}"'
                    for site, (_, endpoint) in zip(SITES, ports, strict=True)
                ),
                encoding="utf-8",
            )
            yield ports, ada, folder
        finally:
            for server in servers:
                server.communicate()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))

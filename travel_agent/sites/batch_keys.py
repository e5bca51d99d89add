"""What the list of machines says of a site without an agent (docs/batch-sites.md)."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from gridtravel.gridcore.errors import InputError
from gridtravel.gridio.batch.options import DEFAULT_FOLDER, BatchOptions
from gridtravel.gridio.config_file import ConfigTable


class BatchKeys(ConfigTable):
    """The keys that begin with ``batch``, of one machine."""

    batch: str = ""
    batch_folder: str = DEFAULT_FOLDER
    batch_parallel_environment: str = "mpi"
    batch_queue: str = ""
    batch_environment: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _make_sense(self) -> Self:
        others = self.model_fields_set
        if not self.batch:
            if any(name.startswith("batch_") for name in others):
                raise ValueError('what begins with batch_ needs batch = "gridengine" or "slurm"')
            return self
        if others & {"endpoint", "ssh_socket", "is_manager", "only_sets"}:
            raise ValueError(
                "batch is for a site without an agent, which is reached by ssh or is this computer;"
                " leave out endpoint, ssh_socket, is_manager and only_sets (docs/batch-sites.md)"
            )
        self.batch_options()
        return self

    def batch_options(self) -> BatchOptions | None:
        """What there is to know of the batch system; ``None``: the site has an agent."""
        if not self.batch:
            return None
        try:
            return BatchOptions(
                system=self.batch,
                folder=self.batch_folder,
                parallel_environment=self.batch_parallel_environment,
                queue=self.batch_queue,
                environment=self.batch_environment,
            )
        except InputError as fault:
            raise ValueError(str(fault)) from None

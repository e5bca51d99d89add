"""The atmosphere of the coupled model: a layer of air above each of 18 bands of latitude.

It is warmed by what the ocean gives, which only the ocean knows, radiates downwards and into space,
and carries heat from the tropics to the poles. Run at a site as ``python3 -I atmosphere.py``; its
companion is ``ocean.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING or __package__:
    from gridtravel.travel_agent.demo.coupled import stepping
else:
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    import stepping

HEAT_CAPACITY = 1.0e7
"""Of the whole column of air, in J/m²/K."""
TEMPERATURE_START = -10.0
"""Everywhere, in °C, in the middle of the column."""
TEMPERATURE_MEAN = -2.0
BACK_RADIATION_MEAN = 252.0
"""What the air sends down at ``TEMPERATURE_MEAN``, in W/m²."""
BACK_RADIATION_SLOPE = 7.0
"""How much more for each degree, in W/m²/K."""
SPACE_MEAN = 238.0
"""What the air radiates into space at ``TEMPERATURE_MEAN``, in W/m²."""
SPACE_SLOPE = 2.1
DIFFUSIVITY = 0.9
"""Transport towards the poles, in W/m²/K (North 1975)."""
SUBSTEPS = 4
"""The air moves faster than the water: it takes this many steps within one of the coupling."""


class Atmosphere:
    """The state of the air, and the heat that came and went, in J/m² of the globe."""

    name = "atmosphere"

    def __init__(self) -> None:
        self.temperatures = [TEMPERATURE_START] * stepping.BANDS
        self.heat_from_outside = 0.0
        """Minus what was radiated into space so far."""

    def outgoing(self) -> list[float]:
        """Flux downwards out of each band, in W/m²."""
        return [
            BACK_RADIATION_MEAN + BACK_RADIATION_SLOPE * (temperature - TEMPERATURE_MEAN)
            for temperature in self.temperatures
        ]

    def advance(self, sent: Sequence[float], received: Sequence[float]) -> None:
        """One coupling step with the fluxes that were exchanged at its beginning."""
        substep_s = stepping.STEP_S / SUBSTEPS
        warming = substep_s / HEAT_CAPACITY
        for _ in range(SUBSTEPS):
            space = [
                SPACE_MEAN + SPACE_SLOPE * (temperature - TEMPERATURE_MEAN)
                for temperature in self.temperatures
            ]
            transport = heat_convergence(self.temperatures)
            self.temperatures = [
                temperature + warming * (up - down - lost + carried)
                for temperature, up, down, lost, carried in zip(
                    self.temperatures, received, sent, space, transport, strict=True
                )
            ]
            self.heat_from_outside -= substep_s * stepping.mean(space)

    def heat(self) -> float:
        """Heat content against 0 °C, in J/m²."""
        return HEAT_CAPACITY * stepping.mean(self.temperatures)


def heat_convergence(temperatures: Sequence[float]) -> list[float]:
    """Heat that transport brings into each band, in W/m²; over all bands it is nothing."""
    width = 2.0 / stepping.BANDS
    across = [0.0]
    for edge in range(1, stepping.BANDS):
        x = edge * width - 1.0
        slope = (temperatures[edge] - temperatures[edge - 1]) / width
        across.append(DIFFUSIVITY * (1.0 - x * x) * slope)
    across.append(0.0)
    return [(across[band + 1] - across[band]) / width for band in range(stepping.BANDS)]


if __name__ == "__main__":
    sys.exit(stepping.run(Atmosphere(), sys.argv[1:]))

"""The ocean of the coupled model: a slab of water under each of 18 bands of latitude.

It takes in the sun's radiation, gives heat upwards by radiation and evaporation, and gets back
what the atmosphere sends down, which only the atmosphere knows. Run at a site as
``python3 -I ocean.py``; its companion is ``atmosphere.py``. The bands have equal areas, so a mean
over the globe is a plain mean.
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

HEAT_CAPACITY = 1.25e8
"""Of 30 m of sea water, in J/m²/K."""
TEMPERATURE_START = 5.0
"""Everywhere, in °C: a cold world that has to warm up."""
TEMPERATURE_MEAN = 15.0
EMISSION_MEAN = 490.0
"""What the ocean gives upwards at ``TEMPERATURE_MEAN``, in W/m²."""
EMISSION_SLOPE = 12.0
"""How much more for each degree, in W/m²/K."""
SOLAR_MEAN = 340.0
"""The sun over the whole globe, in W/m²."""


class Ocean:
    """The state of the water, and the heat that came and went, in J/m² of the globe."""

    name = "ocean"

    def __init__(self) -> None:
        self.temperatures = [TEMPERATURE_START] * stepping.BANDS
        self.solar = [absorbed_sunlight(x) for x in stepping.BAND_CENTRES]
        self.heat_from_outside = 0.0
        """Sunlight taken in so far."""

    def outgoing(self) -> list[float]:
        """Flux upwards out of each band, in W/m²."""
        return [
            EMISSION_MEAN + EMISSION_SLOPE * (temperature - TEMPERATURE_MEAN)
            for temperature in self.temperatures
        ]

    def advance(self, sent: Sequence[float], received: Sequence[float]) -> None:
        """One coupling step with the fluxes that were exchanged at its beginning."""
        warming = stepping.STEP_S / HEAT_CAPACITY
        self.temperatures = [
            temperature + warming * (sun - up + down)
            for temperature, sun, up, down in zip(
                self.temperatures, self.solar, sent, received, strict=True
            )
        ]
        self.heat_from_outside += stepping.STEP_S * stepping.mean(self.solar)

    def heat(self) -> float:
        """Heat content against 0 °C, in J/m²."""
        return HEAT_CAPACITY * stepping.mean(self.temperatures)


def absorbed_sunlight(x: float) -> float:
    """Sunlight that water takes in where the sine of the latitude is ``x``, in W/m².

    Less of it falls near the poles and more of that is reflected (North 1975).
    """
    legendre = (3.0 * x * x - 1.0) / 2.0
    return SOLAR_MEAN * (1.0 - 0.482 * legendre) * (0.681 - 0.202 * legendre)


if __name__ == "__main__":
    sys.exit(stepping.run(Ocean(), sys.argv[1:]))

"""The site's part in trips: outcomes, handovers from stage to stage, ports for companions."""

"""The bundled table: NHANES 2017-18 adults. ORIGIN.md states its origin."""

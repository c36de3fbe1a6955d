"""Tools for tests: noise that repeats, neighbouring tables, audits. Nothing here keeps anybody's privacy."""

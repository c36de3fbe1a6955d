"""What several test files share: engines, noise, tables and files made for tests. It is no part of the package."""

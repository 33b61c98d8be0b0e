"""The laws over what clients saw, against the same questions asked of DuckDB, of Polars and of plain numpy."""

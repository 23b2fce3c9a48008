"""UniFrac engines, their cross-check and the Parquet store."""

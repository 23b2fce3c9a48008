"""What tells a reader: figures, the page of results, tables and the lines of the terminal."""

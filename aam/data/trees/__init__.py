"""Trees: their files, how one is made, and their branches."""

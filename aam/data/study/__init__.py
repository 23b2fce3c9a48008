"""What a study is, from its files alone: its columns, sentences on it, a configuration."""

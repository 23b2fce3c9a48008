pytest_plugins = ["training_fixtures", "bench_fixtures"]

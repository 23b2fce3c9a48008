pytest_plugins = ["training_fixtures", "study_fixtures", "bench_fixtures"]

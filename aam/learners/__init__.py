"""What learns without a network: baselines, the super learner over them, and calibration."""

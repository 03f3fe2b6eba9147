"""Training: environments, PPO, randomisation, export. The only place that imports torch."""

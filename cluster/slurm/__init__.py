"""What is known about talking to Slurm: commands, words, identifiers, scripts, limits, site profiles.

``cluster.submitit_backend`` puts these rooms together."""

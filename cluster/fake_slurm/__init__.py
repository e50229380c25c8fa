"""A pretended Slurm for tests: the usual commands as one small program over one state file (docs/fake-slurm.md).

Standard library only; imports nothing of this project."""

"""Offline analysis of recorded runs: reports, replay through the policy or the twin, the gap."""

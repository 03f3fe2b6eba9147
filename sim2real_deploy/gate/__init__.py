"""May this policy walk? Scenarios, episodes, verdicts, stored results, clearance."""

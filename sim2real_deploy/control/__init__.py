"""Control: modes, limits and the fixed-rate loop between a Link and a policy."""

"""Analysis: what a recorded run says, offline: replay through the policy, the twin, a report."""

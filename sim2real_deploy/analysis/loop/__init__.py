"""From bags back to a policy: identify, learn, randomise, fine-tune, judge, compare."""

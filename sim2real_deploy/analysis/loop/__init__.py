"""From bags back to a policy: identify, compare, randomise, fine-tune, judge, compare again."""

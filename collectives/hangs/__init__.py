"""A suite run that stands still: noticed, read from counters and stacks, and explained."""

"""What is wrong, on whom, and what to do."""

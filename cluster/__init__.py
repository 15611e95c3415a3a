"""The machines and what is known of them: hosts, targets, host facts, findings. No torch."""

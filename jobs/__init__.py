"""A command on N ranks: placement, environment, plan, launchers, supervision, run folder."""

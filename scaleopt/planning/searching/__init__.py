"""Every way to split a run, and what each takes."""

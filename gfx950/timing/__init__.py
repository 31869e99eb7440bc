"""A stated model of how long a launch takes on the card, from what is executed on the emulated one."""

"""The simulation: loop, network, disk and processes under one seed."""

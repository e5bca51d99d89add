"""Virtual time, a modelled network and recorded workloads around the production classes.

It drives the rules of the other packages and holds none of its own.
"""

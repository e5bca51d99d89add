"""Programs for two trips of the documentation: a simulation whose result is drawn elsewhere, and a
picture that is computed wherever first possible.

They travel to the sites and run there alone: standard library, no import of anything else of ours.
"""

"""The self-test of a host: the cheat corpus of the checkout put to the real judge (``kernelyard selftest``)."""

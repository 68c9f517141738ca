"""How fast a kernel could be at best (T_SOL), and what a measured time is worth against that.

``score`` is plain arithmetic and ``hardware`` plain data; ``count`` and ``bound`` need torch and are imported on use.
"""

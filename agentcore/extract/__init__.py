"""From a PyTorch model to problems: export, partition, merge what is identical, write, check against the model, rank.

Executes the operator's own model file in this process. Everything but ``errors`` and ``cli`` needs torch.
"""

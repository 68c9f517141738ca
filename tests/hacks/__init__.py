"""The cheat corpus: one exploit, honest control or honest fault a file, and the driver that puts them to the judge."""

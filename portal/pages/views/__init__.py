"""One module per noun. A view reads the URL, asks queries and scores, and fills a template; it computes nothing."""

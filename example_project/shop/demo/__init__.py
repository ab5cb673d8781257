"""The demo: empty the shop, send it every order of the file, watch, and hold the outcome against the file."""

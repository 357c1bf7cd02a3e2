"""The log on disk, one noun a file: index, segment, epochs, log, log_dir, and the loops that look after them."""

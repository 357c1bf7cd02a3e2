"""What a broker answers: one file for each kind of request, and dispatch.py in front of them."""

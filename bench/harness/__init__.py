"""What bench/marks.py is made of. Python 3.9 or later, standard library only."""

"""What authors and instructors run: make and check the notebooks, build the site, grade, look at the machine."""

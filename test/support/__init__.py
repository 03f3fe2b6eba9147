"""What the tests of several rooms share. Import it as `support.<module>`."""

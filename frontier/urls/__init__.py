"""What URLs say, without asking anybody: pure functions of text."""

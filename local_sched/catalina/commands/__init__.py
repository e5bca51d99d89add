"""What each command of ``catalina`` takes."""

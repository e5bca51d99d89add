"""What the commands of ``catalina`` do and show."""

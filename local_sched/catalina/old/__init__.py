"""The original Catalina's commands and options in today's words."""

"""What a manager has promised: groups of reservations, decisions, events, balance of trade."""

"""What an agent journals, and the state that its journal gives back."""

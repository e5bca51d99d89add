"""Shadow calendars of the children, and the summary that is rolled up from them."""

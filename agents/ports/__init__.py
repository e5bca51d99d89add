"""The verbs that callers are served: the calendar's, the site's, its queries and orders."""

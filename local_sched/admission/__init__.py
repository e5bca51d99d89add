"""Who is let in, by the site's caps and its policy; the policies that a site can name."""

"""The site's configuration file, table by table."""

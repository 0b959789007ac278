"""How pages are put together: groups, titles, lists."""

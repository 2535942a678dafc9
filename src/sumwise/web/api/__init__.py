"""Routes of the JSON API, a module for each resource."""

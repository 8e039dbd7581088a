"""The audit's result, and the page that shows it."""

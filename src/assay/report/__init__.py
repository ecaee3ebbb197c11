"""Results as text that people read: tables, and the layouts of other tools."""

"""The named tests, one file a module. The implementation under test comes in as `subject`."""

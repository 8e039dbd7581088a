"""Methods: what each de-identification method groups, replaces and promises."""

"""Many runs, side by side."""

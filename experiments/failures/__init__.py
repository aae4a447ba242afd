"""What happens when processes are killed and services mistreated."""

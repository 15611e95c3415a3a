"""What files and expressions say of hosts."""

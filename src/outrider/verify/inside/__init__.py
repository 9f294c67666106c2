"""What runs inside the sandbox: the standard library's quickest parts only, for it starts anew for every verdict."""

"""What a kernel's wrapper refuses before it launches anything."""


class KernelInputError(ValueError):
    """A tensor or number that the kernel cannot take; the message says what to change."""

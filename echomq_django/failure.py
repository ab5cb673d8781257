"""What is kept of an exception: text that can be stored and shown, whatever the exception does."""

import traceback

MESSAGE_LIMIT = 1_000
TRACEBACK_LIMIT = 16_000


def kind(error: BaseException) -> str:
    """Give the path of an exception's class."""
    return f"{type(error).__module__}.{type(error).__qualname__}"


def message(error: BaseException) -> str:
    """Give an exception as its class and text, at most 1,000 characters."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception as worse:
        text = f"{type(error).__name__} (its text cannot be had: {type(worse).__name__})"
    return printable(text)[:MESSAGE_LIMIT]


def trace(error: BaseException) -> str:
    """Give an exception's traceback; the middle of a very long one is left out."""
    try:
        text = printable("".join(traceback.format_exception(error)))
    except Exception as worse:
        return f"(the traceback cannot be had: {type(worse).__name__})"
    if len(text) <= TRACEBACK_LIMIT:
        return text
    half = TRACEBACK_LIMIT // 2
    return f"{text[:half]}\n… {len(text) - TRACEBACK_LIMIT} characters left out …\n{text[-half:]}"


def printable(text: str) -> str:
    """Escape half characters, and NUL, which some databases refuse."""
    return text.encode(errors="backslashreplace").decode().replace("\0", "\\x00")

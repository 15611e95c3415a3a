"""Masking: what may hold a secret is replaced before it is written or shown."""

import re
from collections.abc import Mapping, Sequence

MASK = "********"

_SECRET_NAME = re.compile(
    r"(?:^|[_\-.])(?:ACCESS|API|AUTH|BEARER|COOKIE|CREDENTIALS?|DSN|JWT|KEY|PASS|PASSPHRASE|PASSWD"
    r"|PASSWORD|PAT|PRIVATE|PWD|SALT|SECRETS?|SESSION|SIGNATURE|TOKENS?)(?:$|[_\-.])"
    r"|(?:PASSWORD|PASSWD|SECRET|TOKEN|CREDENTIALS?)$"
    r"|(?:ACCESS|ACCOUNT|API|AUTH|PRIVATE|SECRET|SHARED)KEY"
    r"|CONN(?:ECTION)?[_\-]?STR(?:ING)?",
    re.IGNORECASE,
)
# Names that match the pattern above and hold no secret: of a session, and of language models.
_HARMLESS = re.compile(
    r"^(?:PWD|OLDPWD|SSH_AUTH_SOCK|XDG_SESSION_[A-Z]+|SESSION_MANAGER|DBUS_SESSION_.*)$"
    r"|TOKENIZERS?(?:$|[_\-])|(?:MAX|MIN|NEW|NUM|TOTAL)[_\-](?:\w+[_\-])?TOKENS$"
    r"|(?:PAD|BOS|EOS|UNK|SEP|CLS|MASK|SPECIAL)[_\-]TOKEN"
    r"|KEY[_\-]VALUE|(?:NUM|SORT|PRIMARY)[_\-]KEY",
    re.IGNORECASE,
)
# Inside a value: connection strings and query strings.
_SECRET_PART = re.compile(
    r"\b((?:account|access|api|shared|secret)[_-]?(?:access)?[_-]?key|password|passwd|pwd|secret"
    r"|(?:access|auth|id|refresh|sas)?[_-]?token|sig|signature)=[^;&\s]+",
    re.IGNORECASE,
)
_URL_PASSWORD = re.compile(r"(?<=://)([^/\s:@]*):([^/\s@]+)(?=@)")
_KNOWN_TOKEN = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|sk-[\w-]{20,}"
    r"|AKIA[A-Z0-9]{16}|xox[abprs]-[\w-]{10,}|glpat-[\w-]{20,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*)"
)


def is_secret_name(name: str) -> bool:
    """Whether a variable or option of this name usually holds a secret.

    >>> [is_secret_name(n) for n in ("HF_TOKEN", "WANDB_API_KEY", "db-password", "MASTER_PORT")]
    [True, True, True, False]
    >>> [is_secret_name(n) for n in ("PWD", "TOKENIZERS_PARALLELISM", "SSH_AUTH_SOCK")]
    [False, False, False]
    """
    return bool(_SECRET_NAME.search(name)) and not _HARMLESS.search(name)


def mask_text(text: str) -> str:
    """The text without the secrets that are known by where they stand or by their shape.

    In URLs, in connection and query strings, and tokens of well-known services.

    >>> mask_text("http://me:hunter2@proxy:3128")
    'http://me:********@proxy:3128'
    >>> mask_text("AccountName=me;AccountKey=zzz;EndpointSuffix=core")
    'AccountName=me;AccountKey=********;EndpointSuffix=core'
    """
    text = _URL_PASSWORD.sub(rf"\1:{MASK}", text)
    return _KNOWN_TOKEN.sub(MASK, _SECRET_PART.sub(rf"\1={MASK}", text))


def mask_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The same names in order, with the values of secrets masked."""
    return {
        name: MASK if value and is_secret_name(name) else mask_text(value)
        for name, value in environment.items()
    }


def mask_argv(argv: Sequence[str]) -> list[str]:
    """A command line with the values of secret options masked.

    >>> mask_argv(["train.py", "--api-key", "abc", "--hub-token=xyz", "--lr", "0.1", "KEY=1"])
    ['train.py', '--api-key', '********', '--hub-token=********', '--lr', '0.1', 'KEY=********']
    """
    masked: list[str] = []
    hide_next = False
    for argument in argv:
        name, equals, _ = argument.partition("=")
        is_option = argument.startswith("-")
        if hide_next and not is_option:
            masked.append(MASK)
        elif equals and " " not in name and is_secret_name(name.lstrip("-")):
            masked.append(f"{name}={MASK}")
        else:
            masked.append(mask_text(argument))
        hide_next = is_option and not equals and is_secret_name(argument.lstrip("-"))
    return masked

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankrun.cluster.secrets import MASK, is_secret_name, mask_argv, mask_environment, mask_text


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "WANDB_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "GITHUB_PAT",
        "DB_PASSWORD",
        "PGPASSWORD",
        "OPENAI_API_KEY",
        "MYSQL_PWD",
        "DATABASE_DSN",
        "JWT",
        "my-secret",
        "SSH_KEY_PASSPHRASE",
        "AUTH",
        "SENTRY_DSN",
        "HUGGINGFACETOKEN",
        "MY_APIKEY",
        "MY_SECRETKEY",
        "AZURE_STORAGE_CONNECTION_STRING",
        "API_TOKENS",
        "hub-token",
        "COMET_API_KEY",
        "GOOGLE_APPLICATION_CREDENTIALS",
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "PWD",
        "OLDPWD",
        "HOME",
        "NCCL_DEBUG",
        "MASTER_ADDR",
        "TOKENIZERS_PARALLELISM",
        "MAX_TOKENS",
        "SSH_AUTH_SOCK",
        "XDG_SESSION_ID",
        "MONKEY",
        "KEYBOARD",
        "PASSTHROUGH",
        "RANK",
        "COMPATIBLE",
        "max-tokens",
        "max_new_tokens",
        "--pad-token",
        "num-key-value-heads",
        "EOS_TOKEN",
        "tokenizer",
    ],
)
def test_names_of_no_secrets(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("https://user:hunter2@host/x", "hunter2"),
        ("--index-url=https://__token__:pypi-abc@host", "pypi-abc"),
        ("hf_" + "a" * 34, "a" * 34),
        ("ghp_" + "b" * 36, "b" * 36),
        ("AKIAABCDEFGHIJKLMNOP", "AKIAABCDEFGHIJKLMNOP"),
    ],
)
def test_secrets_known_by_their_shape(text: str, secret: str) -> None:
    assert secret not in mask_text(text)
    assert MASK in mask_text(text)


def test_environment_keeps_names_and_order() -> None:
    masked = mask_environment({"B": "1", "A_TOKEN": "x", "EMPTY_TOKEN": "", "C": "http://u:p@h"})
    assert masked == {"B": "1", "A_TOKEN": MASK, "EMPTY_TOKEN": "", "C": f"http://u:{MASK}@h"}
    assert list(masked) == ["B", "A_TOKEN", "EMPTY_TOKEN", "C"]


@given(st.text(alphabet="abcdefgh0123", min_size=6))
def test_a_secret_option_never_shows_its_value(secret: str) -> None:
    argv = ["x", f"--token={secret}z", "--password", f"{secret}z", "-k", f"API_KEY={secret}z"]
    assert f"{secret}z" not in " ".join(mask_argv(argv))


def test_an_option_without_a_value_hides_nothing_else() -> None:
    assert mask_argv(["--token", "--lr", "0.1"]) == ["--token", "--lr", "0.1"]

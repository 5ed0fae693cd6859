"""Accounts: what a configuration may say, what its errors say, and changes at run time."""

import base64
import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from etagere.services.common.accounts import (
    Account,
    AccountDirectory,
    InvalidAccount,
    check_name,
    development_account,
    development_key,
    development_name,
    parse_keys,
)

key = base64.b64encode(bytes(range(64))).decode()
other = base64.b64encode(bytes(range(1, 65))).decode()


def account(name: str, *keys: str) -> Account:
    return Account(name=check_name(name), keys=parse_keys(name, keys or (key,)))


def test_the_development_account_is_azurites() -> None:
    made = development_account()
    assert made.name == development_name == "devstoreaccount1"
    assert [k.secret_base64() for k in made.keys] == [development_key]
    assert len(base64.b64decode(development_key, validate=True)) == 64


def test_settings_are_the_live_services_defaults() -> None:
    made = development_account()
    assert made.allow_shared_key
    assert made.allow_public_access
    assert (made.kind, made.sku) == ("StorageV2", "Standard_LRS")
    switches = [f.name for f in dataclasses.fields(made) if f.type in (bool, "bool")]
    on = {name for name in switches if getattr(made, name)}
    assert on == {"allow_shared_key", "allow_public_access"}


@pytest.mark.parametrize("name", ["abc", "a" * 24, "devstoreaccount1", "123"])
def test_names(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "ab",
        "a" * 25,
        "Abc",
        "a-b",
        "a_b",
        "a.b",
        "abc ",
        "abc\n",
        "\u0430bc",
        "é12",
        "٣٣٣",
        "a/b",
    ],
)
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(InvalidAccount, match="3 to 24 lower-case letters and digits"):
        check_name(name)


def test_keys() -> None:
    assert [k.secret_base64() for k in parse_keys("abc", [key])] == [key]
    assert [k.secret_base64() for k in parse_keys("abc", (key, other))] == [key, other]
    # Emulators let people use short keys.
    assert parse_keys("abc", ["a2V5MQ=="])[0].secret_base64() == "a2V5MQ=="


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ([], 'account "abc" needs one key or two, not 0'),
        ([key, key, key], 'account "abc" needs one key or two, not 3'),
        ([""], 'key 1 of account "abc" is empty'),
        ([key, ""], 'key 2 of account "abc" is empty'),
        (["not base64"], 'key 1 of account "abc" is not base64'),
        ([key, key[:-1]], 'key 2 of account "abc" is not base64'),
        ([key + "\n"], 'key 1 of account "abc" is not base64'),
        ([key.replace("A", "-")], 'key 1 of account "abc" is not base64'),
        (["é"], 'key 1 of account "abc" is not base64'),
        (["===="], 'key 1 of account "abc" is not base64'),
    ],
)
def test_errors_name_the_key_and_what_is_wrong(keys: list[str], said: str) -> None:
    with pytest.raises(InvalidAccount) as caught:
        parse_keys("abc", keys)
    assert str(caught.value) == said


@given(st.text(min_size=1, max_size=100))
def test_errors_never_show_a_key(text: str) -> None:
    """Neither a key that is malformed, nor one that was put where the name belongs."""
    for parse in (lambda: parse_keys("abc", [key, text]), lambda: check_name(text)):
        try:
            parse()
        except InvalidAccount as error:
            shown = str(error)
            assert key not in shown
            assert text not in shown or len(text) <= 24


def test_a_whole_key_in_place_of_a_name_is_not_shown() -> None:
    with pytest.raises(InvalidAccount) as caught:
        check_name(key)
    assert key not in str(caught.value)
    assert f"of {len(key)} characters" in str(caught.value)


def test_an_account_does_not_show_its_keys() -> None:
    made = account("abc", key, other)
    for shown in (repr(made), str(made), repr(AccountDirectory([made]))):
        assert key not in shown
        assert other not in shown


# The directory -------------------------------------------------------------------------------


def test_accounts_are_found_by_name() -> None:
    directory = AccountDirectory([account("abc"), account("xyz")])
    found = directory.find("xyz")
    assert found is not None
    assert found.name == "xyz"
    # A secondary endpoint's name is the caller's to take apart.
    for name in ("", "ab", "ABC", "abc-secondary", "nobody"):
        assert directory.find(name) is None
    assert [made.name for made in directory] == ["abc", "xyz"]
    assert len(directory) == 2


def test_accounts_come_and_go_at_run_time() -> None:
    directory = AccountDirectory()
    assert directory.find("abc") is None
    first = account("abc", key)
    directory.put(first)
    assert directory.find("abc") is first
    rotated = account("abc", other)
    directory.put(rotated)
    assert directory.find("abc") is rotated
    assert len(directory) == 1
    assert directory.remove("abc")
    assert not directory.remove("abc")
    assert directory.find("abc") is None


def test_new_keys_are_new_even_if_their_text_is_the_same() -> None:
    """What was verified with a key is verified anew after the account was configured anew."""
    first, again = account("abc", key), account("abc", key)
    assert first.keys[0] is not again.keys[0]
    assert first.keys != again.keys


def test_the_directory_may_change_while_it_is_walked() -> None:
    directory = AccountDirectory([account("abc"), account("xyz")])
    for made in directory:
        directory.remove(made.name)
    assert len(directory) == 0

"""Where settings come from, which one wins, and what is said of those that cannot be used."""

from pathlib import Path

import pytest

from etagere.app.configuration import Unusable, configure, to_account
from etagere.app.settings import (
    Kind,
    Settings,
    described,
    flag_of,
    ports_of_services,
    services_available,
    services_known,
    variable_of,
)
from etagere.services.common.accounts import development_key, development_name

key = "a2V5IG9uZQ=="
other = "a2V5IHR3bw=="


def refused(flags=None, environment=None):
    with pytest.raises(Unusable) as caught:
        configure(flags or {}, environment or {})
    line = str(caught.value)
    assert "\n" not in line
    assert caught.value.usage
    return line


def test_the_defaults():
    settings = configure({}, {})
    assert settings.data == Path("etagere-data")
    assert not settings.in_memory
    assert settings.host == "127.0.0.1"
    ports = {name: getattr(settings, name) for name in described() if name.endswith("_port")}
    assert ports == {
        "blob_port": 10000,
        "queue_port": 10001,
        "table_port": 10002,
        "files_port": 10003,
        "dfs_port": 10004,
        "smb_port": 10445,
        "amqp_port": 5672,
        "amqps_port": 5671,
        "bus_admin_port": 5300,
        "admin_port": 10080,
    }
    assert settings.workers == 1
    assert settings.durability == "sync"
    assert settings.clock == "real"
    assert settings.oauth == "basic"
    assert settings.services == services_available
    assert settings.accounts[development_name].keys == (development_key,)
    (namespace,) = settings.namespaces.values()
    (rule,) = namespace.rules
    assert (rule.name, rule.key) == ("RootManageSharedAccessKey", "SAS_KEY_VALUE")


def sample(name, about):
    """(text, value, another text) that a setting takes."""
    match about.kind:
        case Kind.PORT:
            return "1234", 1234, "1235"
        case Kind.COUNT:
            return "7", 7, "8"
        case Kind.FLAG:
            return "true", True, "false"
        case Kind.CHOICE:
            return about.choices[-1], about.choices[-1], about.choices[0]
        case Kind.NAMES:
            return "queue,blob", ("blob", "queue"), "table"
        case Kind.REPEATED:
            return "https://a;https://b", ("https://a", "https://b"), "https://c"
        case Kind.PATH:
            return "/tmp/x", Path("/tmp/x"), "/tmp/y"
        case Kind.TEXT:
            return "localhost", "localhost", "127.0.0.2"


settable = [
    n for n in described() if n not in ("config", "account", "tls_cert", "tls_key", "oauth")
]


@pytest.mark.parametrize("name", settable)
def test_every_setting_has_a_flag_and_a_variable_and_the_flag_wins(name):
    about = described()[name][1]
    text, value, another = sample(name, about)
    assert getattr(configure({}, {variable_of(name): text}), name) == value
    given = text.split(";") if about.kind is Kind.REPEATED else text
    assert getattr(configure({name: given}, {variable_of(name): another}), name) == value


@pytest.mark.parametrize("name", [n for n in settable if described()[n][1].in_file])
def test_every_setting_has_a_key_in_the_file_and_the_variable_wins(name, tmp_path):
    about = described()[name][1]
    text, value, another = sample(name, about)
    written = {
        Kind.PORT: text,
        Kind.COUNT: text,
        Kind.FLAG: text,
        Kind.NAMES: '["queue", "blob"]',
        Kind.REPEATED: '["https://a", "https://b"]',
    }.get(about.kind, f'"{text}"')
    file = tmp_path / "etagere.toml"
    file.write_text(f"{name} = {written}\n")
    assert getattr(configure({"config": str(file)}, {}), name) == value
    environment = {variable_of("config"): str(file), variable_of(name): another}
    assert getattr(configure({}, environment), name) != value


def test_names_of_flags_and_variables():
    assert flag_of("bus_admin_port") == "--bus-admin-port"
    assert variable_of("bus_admin_port") == "ETAGERE_BUS_ADMIN_PORT"


# ---- accounts


def test_accounts_from_everywhere_and_the_flags_keys_win(tmp_path):
    file = tmp_path / "etagere.toml"
    file.write_text(
        f'[accounts.infile]\nkeys = ["{key}"]\nversioning = true\nshare_soft_delete_days = 7\n'
        f'kind = "BlockBlobStorage"\n'
    )
    settings = configure(
        {"config": str(file), "account": [f"infile:{other}", f"byflag:{key}:{other}"]},
        {"AZURITE_ACCOUNTS": f"azurite1:{key};azurite2:{key}:{other}",
         "ETAGERE_ACCOUNT": f"byvar:{key};azurite1:{other}"},
    )  # fmt: skip
    assert set(settings.accounts) == {"infile", "byflag", "azurite1", "azurite2", "byvar"}
    assert settings.accounts["infile"].keys == (other,)
    assert settings.accounts["azurite1"].keys == (other,)
    assert settings.accounts["byflag"].keys == (key, other)
    account = to_account("infile", settings.accounts["infile"])
    assert (account.versioning, account.share_soft_delete_days) == (True, 7)
    assert account.kind == "BlockBlobStorage"
    assert settings.oauth == "off"


def test_an_account_of_the_file_may_get_its_keys_from_a_flag(tmp_path):
    file = tmp_path / "etagere.toml"
    file.write_text("[accounts.secret]\nchange_feed = true\n")
    settings = configure({"config": str(file), "account": [f"secret:{key}"]}, {})
    assert settings.accounts["secret"].keys == (key,)
    assert settings.accounts["secret"].options == {"change_feed": True}
    line = refused({"config": str(file)})
    assert "secret" in line
    assert "keys" in line


@pytest.mark.parametrize(
    "text",
    [
        "noneatall",
        "x:" + key,
        "UPPER:" + key,
        "name:",
        "name:not base64",
        f"name:{key}:{key}:{key}",
    ],
)
@pytest.mark.parametrize("source", ["flag", "ETAGERE_ACCOUNT", "AZURITE_ACCOUNTS"])
def test_accounts_that_are_none_are_named(text, source):
    if source == "flag":
        line = refused({"account": [text]})
        assert line.startswith("--account")
    else:
        line = refused({}, {source: text})
        assert line.startswith(source)
    assert text.partition(":")[0] in line


# ---- bus namespaces


def test_a_namespace(tmp_path):
    file = tmp_path / "etagere.toml"
    file.write_text(
        '[bus.sbemulatorns]\ntier = "Premium"\n'
        'rules = [ { name = "Listen", key = "abc", rights = ["Listen"] } ]\n'
    )
    (namespace,) = configure({"config": str(file)}, {}).namespaces.values()
    assert namespace.tier == "Premium"
    assert namespace.rules[0].rights == ("Listen",)


def test_a_server_has_one_namespace(tmp_path):
    file = tmp_path / "etagere.toml"
    rules = 'rules = [{name = "a", key = "b", rights = ["Send"]}]'
    file.write_text(f"[bus.first1]\n{rules}\n[bus.second]\n{rules}\n")
    line = refused({"config": str(file)})
    assert str(file) in line
    assert "leave one" in line


# ---- what cannot be used

lines = {
    "blob_prt = 1\n": ('line 1: "blob_prt" is not known', 'did you mean "blob_port"?'),
    '# one\n\nblob_port = "x"\n': ('line 3: "blob_port" must be a number',),
    "blob_port = 70000\n": ("blob_port", "from 0 to 65535"),
    "workers = 0\n": ("workers", "from 1 to 256"),
    "strict_versions = 1\n": ("strict_versions", "true or false"),
    'services = ["blobs"]\n': ('"blobs"', "blob, queue, table"),
    'services = "blob"\n': ("services", "a list"),
    'durability = "never"\n': ("durability", "sync, relaxed"),
    'host = ""\n': ("host", "empty"),
    "x = \n": ("line 1",),
    "blob_port = 1\nqueue_port = 1\n": ("--blob-port and --queue-port are both 1",),
    'config = "x"\n': ('"config" is not known',),
    "[accounts]\nx = 1\n": ("[accounts.myaccount]",),
    "[accounts.X]\n": ("X",),
    "[accounts.ok1]\nversionning = true\n": ("line 1", '"versionning" is', '"versioning"'),
    '[accounts.ok1]\nkeys = "x"\n': ("keys", "list"),
    '[accounts.ok1]\nkeys = ["x"]\n': ("ok1", "base64"),
    "[accounts.ok1]\nkeys = []\n": ("ok1", "keys"),
    '[accounts.ok1]\nversioning = "yes"\n': ("versioning", "true or false"),
    "[accounts.ok1]\nshare_soft_delete_days = 400\n": ("share_soft_delete_days", "0 to 365"),
    '[accounts.ok1]\nkind = "Tape"\n': ("kind", "StorageV2"),
    "[bus.x]\n": ('"x" is no namespace name',),
    '[bus.sbemulatorns]\ntier = "Gold"\n': ("tier", "Basic, Standard, Premium"),
    "[bus.sbemulatorns]\nrules = []\n": ("rules",),
    '[bus.sbemulatorns]\nrules = [{name = "a"}]\n': ("rule", "rights"),
    "[bus.sbemulatorns]\nrule = []\n": ('"rule" is not known', '"rules"'),
}  # fmt: skip


@pytest.mark.parametrize("text", lines)
def test_bad_lines_of_the_file_are_named_with_what_to_do(tmp_path, text):
    file = tmp_path / "etagere.toml"
    file.write_text(text)
    line = refused({"config": str(file)})
    assert str(file) in line or line.startswith("--")
    for part in lines[text]:
        assert part in line


def test_a_file_that_is_not_there():
    line = refused({"config": "/nowhere/etagere.toml"})
    assert "/nowhere/etagere.toml" in line
    assert "No such file" in line


def test_a_file_that_is_not_text(tmp_path):
    file = tmp_path / "etagere.toml"
    file.write_bytes(b"\xff\xfe\0")
    assert str(file) in refused({"config": str(file)})


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        ({"blob_port": "x"}, ('--blob-port is "x"', "whole number")),
        ({"blob_port": "-1"}, ("--blob-port",)),
        ({"blob_port": "65536"}, ("--blob-port", "65535")),
        ({"workers": "0"}, ("--workers",)),
        ({"services": "blob,nothing"}, ('"nothing"',)),
        ({"services": ","}, ("--services names nothing",)),
        ({"services": "smb"}, ("smb is not in this version",)),
        ({"clock": "moon"}, ("--clock", "real, virtual")),
        ({"in_memory": True, "data": "x"}, ("--data and --in-memory",)),
        ({"in_memory": True, "workers": "2"}, ("--workers",)),
        ({"tls_cert": "x"}, ("--tls-key is missing",)),
        ({"tls_key": "x"}, ("--tls-cert is missing",)),
        ({"oauth": "oidc"}, ("--oidc-issuer",)),
        ({"data": ""}, ("--data is empty",)),
        ({"blob_port": "10001"}, ("--blob-port and --queue-port are both 10001",)),
        ({"table_port": "10080"}, ("--admin-port and --table-port are both 10080",)),
        ({"blob_port": "5671"}, ("--blob-port and --amqps-port are both 5671",)),
    ],
)
def test_bad_flags_are_named_with_what_to_do(flags, parts):
    line = refused(flags)
    for part in parts:
        assert part in line


def test_bad_variables_are_named():
    assert refused({}, {"ETAGERE_BLOB_PORT": "x"}).startswith('ETAGERE_BLOB_PORT is "x"')
    assert "ETAGERE_IN_MEMORY" in refused({}, {"ETAGERE_IN_MEMORY": "maybe"})


def test_ports_of_services_that_are_not_asked_for_are_free():
    assert configure({"blob_port": "10003"}, {}).blob_port == 10003
    assert configure({"services": "blob", "blob_port": "5672"}, {}).blob_port == 5672
    assert configure({"services": "bus", "amqp_port": "10001"}, {}).amqp_port == 10001


def test_every_port_is_of_a_service_or_the_admin_api():
    ports = {name for name, (_, about) in described().items() if about.kind is Kind.PORT}
    assert ports == {"admin_port"}.union(*ports_of_services.values())
    assert set(ports_of_services) == set(services_known)


def test_free_ports_may_be_asked_for_often():
    settings = configure({"blob_port": "0", "queue_port": "0"}, {})
    assert settings.blob_port == settings.queue_port == 0


# ---- keys that everybody knows


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.com"])
def test_keys_that_everybody_knows_stay_on_loopback(host, tmp_path):
    line = refused({"host": host})
    assert development_name in line
    assert "--allow-development-key" in line
    assert "everybody knows" in refused({"host": host, "account": [f"mine:{development_key}"]})
    assert "everybody knows" in refused(
        {"host": host, "account": [f"mine:{key}:{development_key}"]}
    )
    mine = {"host": host, "account": [f"mine:{key}"]}
    line = refused(mine)
    assert "sbemulatorns" in line
    assert "leave bus out of --services" in line
    assert configure({**mine, "services": "blob"}, {}).oauth == "off"
    file = tmp_path / "etagere.toml"
    file.write_text('[bus.mybus1]\nrules = [{name = "a", key = "b", rights = ["Send"]}]\n')
    assert configure({**mine, "config": str(file)}, {}).host == host
    assert configure({"host": host, "allow_development_key": True}, {}).host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_is_where_the_development_key_belongs(host):
    assert configure({"host": host}, {}).accounts.keys() == {development_name}


def test_bearer_tokens_by_default():
    assert configure({"oidc_issuer": ["https://i"]}, {}).oauth == "oidc"
    assert configure({"oauth": "off"}, {}).oauth == "off"
    assert configure({"account": [f"mine:{key}"]}, {}).oauth == "off"


def test_settings_go_to_workers_and_back():
    import msgspec

    settings = configure({"account": [f"mine:{key}"], "tls_cert": "c", "tls_key": "k"}, {})
    sent = msgspec.json.encode(settings, enc_hook=str)
    back = msgspec.json.decode(sent, type=Settings, dec_hook=lambda _, text: Path(text))
    assert back == settings

"""What a broker can be told, and from where: settings, their sources and their manual."""

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.broker.setting.setting import BOOL, NAMES, TEXT
from magnetar.broker.setting.settings import SECTIONS, SETTINGS, BrokerSettings
from magnetar.broker.setting.settings_load import (
    BROKER_CONF,
    COMMAND_LINE,
    ENVIRONMENT,
    RESERVED,
    TOML,
    LoadedSettings,
    load_settings,
    reserved_values,
)
from magnetar.errors import SettingsError
from magnetar.storage import StoreOptions


def load(
    toml: str | None = None,
    environ: dict[str, str] | None = None,
    conf: str | None = None,
    options: dict[str, str] | None = None,
) -> LoadedSettings:
    return load_settings(toml, environ or {}, conf, options or {})


def refusal(
    toml: str | None = None,
    environ: dict[str, str] | None = None,
    options: dict[str, str] | None = None,
) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        load(toml=toml, environ=environ, options=options)
    return caught.value


# ---- The settings themselves ------------------------------------------------------------


def test_every_attribute_has_an_entry_in_the_table_of_its_kind() -> None:
    settings = BrokerSettings()
    public = {name for name in dir(settings) if not name.startswith("_")}
    assert public - {"value_of", "store_options", "check_access"} == set(SETTINGS)
    kinds: dict[str, type] = {BOOL: bool, TEXT: str, NAMES: tuple}
    for name, setting in SETTINGS.items():
        assert type(settings.value_of(name)) is kinds.get(setting.kind, int), name


def test_the_defaults_of_storage_are_those_of_the_store() -> None:
    ours, theirs = BrokerSettings().store_options(), StoreOptions()
    for name in ("fsync", "fsync_interval_ms", "cache_bytes", "segment_bytes", "watermark_bytes"):
        assert getattr(ours, name) == getattr(theirs, name)
    for name in ("ledger_entries_max", "ledger_bytes_max", "ledger_age_ms_max"):
        assert getattr(ours, name) == getattr(theirs, name)


def test_what_is_said_of_storage_reaches_the_store() -> None:
    options = BrokerSettings(
        fsync="never",
        fsync_interval_ms=7,
        cache_bytes=8,
        segment_bytes=1 << 21,
        ledger_entries_max=9,
        ledger_bytes_max=10,
        ledger_age_ms_max=11,
        watermark_bytes=12,
    ).store_options()
    assert (options.fsync, options.fsync_interval_ms, options.cache_bytes) == ("never", 7, 8)
    assert (options.segment_bytes, options.ledger_entries_max) == (1 << 21, 9)
    assert (options.ledger_bytes_max, options.ledger_age_ms_max) == (10, 11)
    assert options.watermark_bytes == 12


def test_a_value_out_of_range_is_refused_as_the_settings_are_made() -> None:
    with pytest.raises(SettingsError, match="keep_alive_ms: 0 is too little: give 1 or more"):
        BrokerSettings(keep_alive_ms=0)
    with pytest.raises(SettingsError, match="ttl_seconds: 2147483648 is too much"):
        BrokerSettings(ttl_seconds=1 << 31)
    with pytest.raises(SettingsError, match="cluster_name: the text is empty"):
        BrokerSettings(cluster_name="")
    with pytest.raises(SettingsError, match="fsync: 'maybe' is not one of always, interval, never"):
        BrokerSettings(fsync="maybe")
    with pytest.raises(SettingsError, match="subscription_types: the list is empty"):
        BrokerSettings(subscription_types=())
    with pytest.raises(SettingsError, match="subscription_types: 'Solo' is not one of Exclusive"):
        BrokerSettings(subscription_types=("Shared", "Solo"))


# ---- Where they come from ---------------------------------------------------------------


def test_nothing_said_gives_the_defaults() -> None:
    loaded = load()
    assert loaded.notices == []
    assert loaded.sources == {}
    for name in SETTINGS:
        assert loaded.settings.value_of(name) == BrokerSettings().value_of(name)


@given(st.sets(st.sampled_from([BROKER_CONF, TOML, ENVIRONMENT, COMMAND_LINE])))
def test_the_nearest_source_wins(present: set[str]) -> None:
    loaded = load(
        conf="maxProducersPerTopic=1" if BROKER_CONF in present else None,
        toml="max_producers_per_topic = 2" if TOML in present else None,
        environ={"MAGNETAR_MAX_PRODUCERS_PER_TOPIC": "3"} if ENVIRONMENT in present else None,
        options={"max-producers-per-topic": "4"} if COMMAND_LINE in present else None,
    )
    order = [BROKER_CONF, TOML, ENVIRONMENT, COMMAND_LINE]
    weight, source = max([(order.index(one) + 1, one) for one in present], default=(0, None))
    assert loaded.settings.max_producers_per_topic == weight
    assert loaded.sources.get("max_producers_per_topic") == source


def test_a_slip_is_reported_even_where_another_source_wins() -> None:
    error = refusal(toml="keep_alive_ms = 'soon'", options={"keep_alive_ms": "1 s"})
    assert error.key == "magnetar.toml: keep_alive_ms"


def test_notices_of_a_broker_conf_are_passed_on() -> None:
    loaded = load(conf="numIOThreads=8\nclusterName=mine")
    assert loaded.settings.cluster_name == "mine"
    assert loaded.sources == {"cluster_name": BROKER_CONF}
    assert len(loaded.notices) == 1
    assert "numIOThreads" in loaded.notices[0]


def test_tables_of_toml_are_headings() -> None:
    loaded = load(
        toml="""
            cluster_name = "mine"
            port = 6650
            subscription_types = ["Shared", "Exclusive"]
            [limits]
            max_connections = 7
            max_pending_publish_bytes = "1 GiB"
            [whatever]
            deduplication = true
            retention_minutes = "7 d"
            retention_mb = "2 GiB"
            backlog_quota_seconds = -1
            memory = true
            """
    )
    settings = loaded.settings
    assert (settings.cluster_name, settings.max_connections) == ("mine", 7)
    assert settings.subscription_types == ("Shared", "Exclusive")
    assert settings.max_pending_publish_bytes == 1 << 30
    assert settings.deduplication
    assert (settings.retention_minutes, settings.retention_mb) == (7 * 24 * 60, 2048)
    assert settings.backlog_quota_seconds == -1
    assert set(loaded.sources.values()) == {TOML}


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("a = ", "this is not TOML"),
        ("max_connectons = 1", "did you mean max_connections?"),
        ("zzz = 1", "there is no such setting: see the reference"),
        ("max_connections = 1\n[t]\nmax_connections = 2", "it is given twice"),
        ("[a.b]\nmax_connections = 2", "there is no such setting"),
        ("deduplication = 1", "1 is neither true nor false"),
        ("max_connections = true", "True has the wrong type: give a whole number"),
        ("max_connections = '7'", "'7' has the wrong type: give a whole number"),
        ("max_connections = 1.5", "1.5 has the wrong type"),
        ("cluster_name = 7", "7 has the wrong type: give a text"),
        ("keep_alive_ms = 1.5", "give a whole number of ms, or one with a unit (ms, s, min, h, d)"),
        ("keep_alive_ms = '30 apples'", "'30 apples' has no unit that fits"),
        ("message_size_max = '64 MB'", "(B, KiB, MiB, GiB, TiB)"),
        ("message_size_max = 'MiB'", "'MiB' is not an amount"),
        ("ttl_seconds = '1500 ms'", "'1500 ms' is not whole"),
        ("subscription_types = 'Shared'", "'Shared' is not a list of names"),
        ("subscription_types = [1]", "[1] is not a list of names"),
        ("subscription_types = []", "the list is empty"),
        ("keep_alive_ms = 0", "0 is too little"),
    ],
)
def test_a_slip_in_toml_is_named(toml: str, said: str) -> None:
    error = refusal(toml=toml)
    assert str(error).startswith("magnetar.toml")
    assert said in error.reason


def test_variables_are_read_as_text() -> None:
    loaded = load(
        environ={
            "MAGNETAR_CLUSTER_NAME": "mine",
            "MAGNETAR_KEEP_ALIVE_MS": " 2 min ",
            "MAGNETAR_TTL_SECONDS": "90s",
            "MAGNETAR_BACKLOG_QUOTA_BYTES": "-1",
            "MAGNETAR_BATCH_INDEX_ACK": "Off",
            "MAGNETAR_DEDUPLICATION": "yes",
            "MAGNETAR_SUBSCRIPTION_TYPES": "Shared, Key_Shared,",
            "MAGNETAR_DATA": "/somewhere",
            "HOME": "/home",
        }
    )
    settings = loaded.settings
    assert (settings.cluster_name, settings.keep_alive_ms, settings.ttl_seconds) == (
        "mine",
        120_000,
        90,
    )
    assert settings.backlog_quota_bytes == -1
    assert not settings.batch_index_ack
    assert settings.deduplication
    assert settings.subscription_types == ("Shared", "Key_Shared")
    assert loaded.notices == []


def test_a_variable_of_another_program_is_passed_over_with_a_notice() -> None:
    loaded = load(environ={"MAGNETAR_BUILD": "compiled", "MAGNETAR_PORT": "1"})
    assert loaded.notices == ["the variable MAGNETAR_BUILD is not a setting, and has no effect"]


def test_variables_of_the_other_commands_are_passed_over() -> None:
    environ = {"MAGNETAR_URL": "pulsar://a:1", "MAGNETAR_PROFILE": "prod", "MAGNETAR_TOKEN": "x"}
    assert load(environ=environ).notices == []


def test_a_slip_in_a_variable_is_named() -> None:
    error = refusal(environ={"MAGNETAR_DEDUPLICATION": "perhaps"})
    assert str(error) == (
        "MAGNETAR_DEDUPLICATION: 'perhaps' is neither true nor false: give one of them"
    )
    error = refusal(environ={"MAGNETAR_MAX_CONNECTIONS": "5 apples"})
    assert error.reason == "'5 apples' has no unit that fits: give a whole number"


def test_a_slip_in_an_option_is_named() -> None:
    assert str(refusal(options={"--keep-alive": "1"})) == (
        "--keep-alive: there is no such setting: did you mean keep_alive_ms?"
    )
    assert refusal(options={"keep_alive_ms": "-5"}).key == "--keep-alive-ms"


def test_names_of_the_command_line_are_no_settings() -> None:
    assert not set(RESERVED) & set(SETTINGS)
    loaded = load(options=dict.fromkeys(RESERVED, "x"))
    assert loaded.sources == {}


def test_names_of_the_command_line_weigh_as_settings_do() -> None:
    toml = "port = 1\nmemory = true\n[serve]\nhost = 'a'\ndata = 'd'\nkeep_alive_ms = 5"
    environ = {"MAGNETAR_PORT": "2", "MAGNETAR_HOST": "b"}
    options = {"--http-port": "3", "host": "c", "keep_alive_ms": "6"}
    assert reserved_values(toml, environ, options) == {
        "port": "2",
        "memory": "true",
        "host": "c",
        "data": "d",
        "http_port": "3",
    }
    assert reserved_values(None, {}, {}) == {}


@given(st.integers(-50_000, 50_000), st.sampled_from(["", " "]), st.sampled_from(["ms", "s", "d"]))
def test_a_time_with_a_unit_is_that_many_milliseconds(number: int, space: str, unit: str) -> None:
    factor = {"ms": 1, "s": 1000, "d": 86_400_000}[unit]
    text = f"{number}{space}{unit}"
    if number < 0:
        assert "too little" in refusal(options={"failover_delay_ms": text}).reason
    else:
        loaded = load(options={"failover_delay_ms": text})
        assert loaded.settings.failover_delay_ms == number * factor


@given(st.text(max_size=8))
def test_any_text_is_a_value_or_a_settings_error(text: str) -> None:
    for name in SETTINGS:
        try:
            loaded = load(options={name: text})
        except SettingsError as error:
            # Or another one that this one needs beside it.
            assert error.key in (f"--{name.replace('_', '-')}", *SETTINGS)
        else:
            assert loaded.sources == {name: COMMAND_LINE}


@pytest.mark.parametrize(
    ("toml", "key"),
    [
        ('tls_certificate_file = "a"', "tls_key_file"),
        ('tls_key_file = "a"', "tls_certificate_file"),
        ('tls_trust_certs_file = "a"', "tls_certificate_file"),
        ("tls_require_client_certificate = true", "tls_trust_certs_file"),
        ('tls_crl_file = "a"', "tls_trust_certs_file"),
        ('token_secret_key = "a"\ntoken_public_key = "b"', "token_public_key"),
        ("authentication = true", "authentication"),
    ],
)
def test_a_setting_that_needs_another_is_refused_without_it(toml: str, key: str) -> None:
    assert refusal(toml=toml).key == key


def test_a_secret_is_not_shown_in_an_error() -> None:
    assert "4711" not in str(refusal(toml="token_secret_key = 4711"))


# ---- The manual -------------------------------------------------------------------------


def test_every_setting_says_what_it_is_in_a_section_of_the_manual() -> None:
    assert {one.name for one in fields(BrokerSettings)} == set(SETTINGS)
    assert sum([len(section) for section in SECTIONS.values()]) == len(SETTINGS)
    assert all(setting.meaning for setting in SETTINGS.values())


def test_settings_do_not_change_and_do_not_show_secrets() -> None:
    settings = BrokerSettings(token_secret_key="data:;base64,c2VjcmV0")
    with pytest.raises(AttributeError):
        settings.keep_alive_ms = 5  # type: ignore[misc]
    assert "c2VjcmV0" not in repr(settings)

"""Every state meets every input; the rules that the tables must keep are checked over all pairs."""

from itertools import product

import pytest

from etagere.protocols.amqp.states import (
    ConnectionEffect,
    ConnectionInput,
    ConnectionState,
    LinkEffect,
    LinkInput,
    LinkState,
    SaslEffect,
    SaslInput,
    SaslState,
    SessionEffect,
    SessionInput,
    SessionState,
    connection_table,
    connection_unreachable,
    link_table,
    sasl_table,
    session_table,
)


@pytest.mark.parametrize("pair", list(product(ConnectionState, ConnectionInput)), ids=str)
def test_connection(pair: tuple[ConnectionState, ConnectionInput]) -> None:
    if pair in connection_unreachable:
        assert pair not in connection_table
        return
    state, happened = pair
    effect, following = connection_table[pair]
    if state is ConnectionState.closed:
        assert (effect, following) == (ConnectionEffect.none, ConnectionState.closed)
    if happened is ConnectionInput.end_of_input:
        assert following is ConnectionState.closed
    if happened is ConnectionInput.fault:
        assert following in (ConnectionState.close_sent, ConnectionState.closed)
        assert effect is not ConnectionEffect.refuse  # a fault while blaming would not end
    if effect is ConnectionEffect.dispatch:
        assert state is following is ConnectionState.open
    if state is not ConnectionState.closed and following is ConnectionState.closed:
        # Whoever closes tells the caller, once; SASL's failure says it through `report_end`.
        assert effect in {
            ConnectionEffect.decline_header,
            ConnectionEffect.drop,
            ConnectionEffect.answer_close,
            ConnectionEffect.send_open_and_close,
            ConnectionEffect.report_end,
            ConnectionEffect.report_loss,
        }


@pytest.mark.parametrize("pair", list(product(SaslState, SaslInput)), ids=str)
def test_sasl(pair: tuple[SaslState, SaslInput]) -> None:
    state, happened = pair
    effect, following = sasl_table[pair]
    if effect is SaslEffect.succeed:
        assert pair == (SaslState.judging, SaslInput.approved)
    if state is SaslState.done:
        assert following is SaslState.done
        assert effect in (SaslEffect.refuse, SaslEffect.none)
    if happened in (SaslInput.approved, SaslInput.denied) and state is not SaslState.judging:
        assert effect is SaslEffect.none


@pytest.mark.parametrize("pair", list(product(SessionState, SessionInput)), ids=str)
def test_session(pair: tuple[SessionState, SessionInput]) -> None:
    state, happened = pair
    effect, following = session_table[pair]
    if effect is SessionEffect.dispatch:
        assert (state, following) == (SessionState.mapped, SessionState.mapped)
    if effect is SessionEffect.refuse:
        assert following is state
    if state is SessionState.unmapped and happened is not SessionInput.begin:
        assert following is SessionState.unmapped
    if happened is SessionInput.end:
        assert following is SessionState.unmapped


@pytest.mark.parametrize("pair", list(product(LinkState, LinkInput)), ids=str)
def test_link(pair: tuple[LinkState, LinkInput]) -> None:
    state, happened = pair
    effect, following = link_table[pair]
    if effect in (LinkEffect.refuse, LinkEffect.none):
        assert following is state
    if happened is LinkInput.attach and effect is not LinkEffect.refuse:
        assert following is LinkState.attach_received
    if effect is LinkEffect.send_attach:
        assert pair == (LinkState.attach_received, LinkInput.accept)
    # Exactly one detach leaves for each link: after it, no effect sends another.
    if state in (LinkState.detach_sent, LinkState.detached):
        assert effect not in {
            LinkEffect.send_detach,
            LinkEffect.answer_detach,
            LinkEffect.send_attach_and_detach,
        }

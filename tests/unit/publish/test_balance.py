"""How an account is shown after a publication."""

from pathlib import Path

from gapless.publish import Balance


def test_a_balance_states_whether_another_ledger_would_be_noticed():
    registered = Balance(60.0, 40.0, Path("people.ledger"), "registered")
    assert "another one is refused" in registered.scope
    assert "would not be noticed" in Balance(60.0, 40.0, Path("people.ledger")).scope
    assert registered.to_dict() == {"spent": 60.0, "left": 40.0, "ledger": "people.ledger"}
    assert str(registered) == "Spent 60.00% of the budget, left 40.00%, in people.ledger"

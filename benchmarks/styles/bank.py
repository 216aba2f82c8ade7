"""Transfers through an escrow, with one ledger as history."""
from collections.abc import Iterator
from enum import Enum

from kraftcheck import *


class Kind(Enum):
    OPEN = "open"
    SETTLE = "settle"
    REFUND = "refund"


class Entry(Record):
    kind: Kind
    payer: str
    payee: str
    amount: int


class Escrow(Record):
    payer: str
    payee: str
    amount: int
    approvals: frozenset[str] = frozenset()


class Bank(Record):
    accounts: Map[str, int]
    escrows: Map[int, Escrow] = Map()
    ledger: tuple[Entry, ...] = ()
    opened: int = 0


class EscrowBank(Protocol):
    customers: frozenset[str] = constant("Customers")
    deposit: int = constant("Deposit")
    transfers: int = constant("MaxTransfers")
    network = None

    def initial(self) -> Iterator[State]:
        yield self.start([], Bank(Map({c: self.deposit for c in self.customers})))

    def log(self, shared: Bank, kind: Kind, escrow: Escrow) -> tuple[Entry, ...]:
        return shared.ledger + (Entry(kind, escrow.payer, escrow.payee, escrow.amount),)

    @environment
    def open(self, shared: Bank) -> Steps:
        if shared.opened == self.transfers:
            return
        for payer, balance in shared.accounts.items():
            for payee in self.customers - {payer}:
                for amount in range(1, balance + 1):
                    escrow = Escrow(payer, payee, amount)
                    yield Step().put(
                        accounts=shared.accounts.put(payer, balance - amount),
                        escrows=shared.escrows.put(shared.opened, escrow),
                        ledger=self.log(shared, Kind.OPEN, escrow),
                        opened=shared.opened + 1,
                    )

    @environment
    def approve(self, shared: Bank) -> Steps:
        for number, escrow in shared.escrows.items():
            for who in {escrow.payer, escrow.payee} - escrow.approvals:
                yield Step().put(escrows=shared.escrows.put(number, escrow.but(approvals=escrow.approvals | {who})))

    @environment
    def settle(self, shared: Bank) -> Steps:
        for number, escrow in shared.escrows.items():
            if len(escrow.approvals) == 2:
                accounts = shared.accounts
                yield Step().put(
                    accounts=accounts.put(escrow.payee, accounts[escrow.payee] + escrow.amount),
                    escrows=shared.escrows.without(number),
                    ledger=self.log(shared, Kind.SETTLE, escrow),
                )

    @environment
    def refund(self, shared: Bank) -> Steps:
        for number, escrow in shared.escrows.items():
            if not escrow.approvals:
                accounts = shared.accounts
                yield Step().put(
                    accounts=accounts.put(escrow.payer, accounts[escrow.payer] + escrow.amount),
                    escrows=shared.escrows.without(number),
                    ledger=self.log(shared, Kind.REFUND, escrow),
                )

    @invariant
    def total_is_kept(self, shared: Bank) -> bool:
        held = sum(e.amount for e in shared.escrows.values())
        return sum(shared.accounts.values()) + held == self.deposit * len(self.customers)

    @invariant
    def ledger_explains_balances(self, shared: Bank) -> bool:
        balances = {c: self.deposit for c in self.customers}
        for entry in shared.ledger:
            if entry.kind is Kind.OPEN:
                balances[entry.payer] -= entry.amount
            elif entry.kind is Kind.SETTLE:
                balances[entry.payee] += entry.amount
            else:
                balances[entry.payer] += entry.amount
        return all(balances[c] == shared.accounts[c] for c in self.customers)

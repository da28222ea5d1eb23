"""Commands of the ledger, budgets and releases."""

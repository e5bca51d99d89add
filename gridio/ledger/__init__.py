"""A site's ledger: what its accounts have, what is held for promises, and what was paid."""

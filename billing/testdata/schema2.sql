-- The tables of schema 2, as the embedded store made them.

-- The cursors: up to which record of its journal each node has been applied.
-- inc is the incarnation that may go on; an older process of the node may not.
CREATE TABLE applied(
  node INTEGER NOT NULL, sink TEXT NOT NULL, inc INTEGER NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY(node, sink)) STRICT, WITHOUT ROWID;

CREATE TABLE account(
  no INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL UNIQUE, created_us INTEGER NOT NULL,
  diem_daily INTEGER NOT NULL DEFAULT 0) STRICT;

CREATE TABLE api_key(
  no INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, account INTEGER NOT NULL REFERENCES account,
  type INTEGER NOT NULL, secret_mac BLOB NOT NULL UNIQUE, last6 TEXT NOT NULL, description TEXT NOT NULL,
  limit_period INTEGER NOT NULL, limit_usd INTEGER, limit_diem INTEGER,
  created_us INTEGER NOT NULL, expires_us INTEGER NOT NULL, revoked_us INTEGER NOT NULL,
  limit_text_usd TEXT NOT NULL DEFAULT '', limit_text_diem TEXT NOT NULL DEFAULT '',
  privacy INTEGER NOT NULL DEFAULT 1, version INTEGER NOT NULL DEFAULT 1, last_used_us INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE INDEX api_key_account ON api_key(account);

CREATE TABLE model(no INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE) STRICT;

-- Money of an account. day is 0 except for DIEM, which are for one day each.
CREATE TABLE bucket(
  account INTEGER NOT NULL, currency INTEGER NOT NULL, day INTEGER NOT NULL,
  granted INTEGER NOT NULL, avail INTEGER NOT NULL CHECK(avail >= 0), escrow INTEGER NOT NULL DEFAULT 0 CHECK(escrow >= 0),
  spent INTEGER NOT NULL DEFAULT 0 CHECK(spent >= 0), expired INTEGER NOT NULL DEFAULT 0 CHECK(expired >= 0),
  CHECK(granted = avail + escrow + spent + expired), PRIMARY KEY(account, currency, day)) STRICT, WITHOUT ROWID;
CREATE INDEX bucket_diem ON bucket(day) WHERE currency = 2 AND avail > 0;

-- Double entry. The postings of an entry sum to 0 in each currency. Charges of
-- a whole batch are one entry, with one posting an account and currency.
CREATE TABLE entry(
  id INTEGER PRIMARY KEY, ts_us INTEGER NOT NULL, kind TEXT NOT NULL, ref TEXT UNIQUE,
  seq_first INTEGER, seq_last INTEGER, memo TEXT NOT NULL DEFAULT '', node INTEGER) STRICT;
CREATE TABLE posting(
  entry INTEGER NOT NULL, book TEXT NOT NULL, account INTEGER NOT NULL, currency INTEGER NOT NULL,
  amount INTEGER NOT NULL, balance_after INTEGER, PRIMARY KEY(entry, book, account, currency)) STRICT, WITHOUT ROWID;
-- Running sums of the books that belong to the house: cash, grants, revenue, debt, shortfall, late, breakage.
CREATE TABLE house(book TEXT NOT NULL, currency INTEGER NOT NULL, balance INTEGER NOT NULL, PRIMARY KEY(book, currency)) STRICT, WITHOUT ROWID;

CREATE TABLE usage_day(
  account INTEGER NOT NULL, api_key INTEGER NOT NULL, day INTEGER NOT NULL, model INTEGER NOT NULL, currency INTEGER NOT NULL,
  requests INTEGER NOT NULL,
  input_tokens INTEGER NOT NULL, cache_read_tokens INTEGER NOT NULL, cache_write_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
  input_amount INTEGER NOT NULL, cache_read_amount INTEGER NOT NULL, cache_write_amount INTEGER NOT NULL, output_amount INTEGER NOT NULL,
  last_us INTEGER NOT NULL, PRIMARY KEY(account, api_key, day, model, currency)) STRICT, WITHOUT ROWID;
CREATE INDEX usage_day_day ON usage_day(account, day);
-- The single requests, packed (usagepage.go). Sequences are those of a node.
CREATE TABLE usage_page(
  account INTEGER NOT NULL, node INTEGER NOT NULL, seq_first INTEGER NOT NULL, seq_last INTEGER NOT NULL,
  first_us INTEGER NOT NULL, last_us INTEGER NOT NULL, requests INTEGER NOT NULL, data BLOB NOT NULL,
  PRIMARY KEY(account, node, seq_first)) STRICT, WITHOUT ROWID;

-- What to charge for streams that were under way when their process died.
CREATE TABLE open_progress(
  node INTEGER NOT NULL, hold INTEGER NOT NULL, seq INTEGER NOT NULL, record BLOB NOT NULL, PRIMARY KEY(node, hold)) STRICT, WITHOUT ROWID;

-- The processes that share this store. op is the number of the last operation
-- on leases and answer what it granted; reclaims counts how often the leases
-- were taken back.
CREATE TABLE node(
  no INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, inc INTEGER NOT NULL, started_us INTEGER NOT NULL,
  expires_us INTEGER NOT NULL, ended INTEGER NOT NULL DEFAULT 0, op INTEGER NOT NULL DEFAULT 0, answer BLOB, reclaims INTEGER NOT NULL DEFAULT 0) STRICT;

-- What a node may still spend of a bucket: its part of the bucket's escrow.
CREATE TABLE lease(
  node INTEGER NOT NULL, account INTEGER NOT NULL, currency INTEGER NOT NULL, day INTEGER NOT NULL,
  amount INTEGER NOT NULL CHECK(amount >= 0), PRIMARY KEY(account, currency, day, node)) STRICT, WITHOUT ROWID;
CREATE INDEX lease_node ON lease(node);

-- What a node may still spend of a key's limit in a period (Period.number).
-- What all have spent is the sum of usage_day.
CREATE TABLE quota(
  node INTEGER NOT NULL, api_key INTEGER NOT NULL, currency INTEGER NOT NULL, period INTEGER NOT NULL,
  amount INTEGER NOT NULL CHECK(amount >= 0), PRIMARY KEY(api_key, period, currency, node)) STRICT, WITHOUT ROWID;
CREATE INDEX quota_node ON quota(node);

-- What other nodes must hear of. The numbers come from counter in the order of
-- the commits, so that who has read up to one has missed none before it.
CREATE TABLE change(no INTEGER PRIMARY KEY, kind INTEGER NOT NULL, account INTEGER NOT NULL, api_key INTEGER NOT NULL, at_us INTEGER NOT NULL) STRICT;
CREATE TABLE counter(name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO counter(name, value) VALUES('change', 0);
CREATE TABLE setting(name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;

-- The last refusals by limits of each account.
CREATE TABLE violation(
  no INTEGER PRIMARY KEY, account INTEGER NOT NULL, at_us INTEGER NOT NULL, api_key INTEGER NOT NULL, model TEXT NOT NULL, tier TEXT NOT NULL, kind TEXT NOT NULL) STRICT;
CREATE INDEX violation_account ON violation(account, no);

-- Single-use tokens that were used.
CREATE TABLE token(id TEXT PRIMARY KEY, expires_us INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX token_expires ON token(expires_us);


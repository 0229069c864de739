CREATE TABLE applied(sink TEXT PRIMARY KEY, seq INTEGER NOT NULL) STRICT, WITHOUT ROWID;
INSERT INTO applied VALUES('ledger', 0), ('usage', 0);

CREATE TABLE account(
  no INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL UNIQUE,
  created_us INTEGER NOT NULL) STRICT;

CREATE TABLE api_key(
  no INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, account INTEGER NOT NULL REFERENCES account,
  type INTEGER NOT NULL, secret_mac BLOB NOT NULL UNIQUE, last6 TEXT NOT NULL, description TEXT NOT NULL,
  limit_period INTEGER NOT NULL, limit_usd INTEGER, limit_diem INTEGER,
  created_us INTEGER NOT NULL, expires_us INTEGER NOT NULL, revoked_us INTEGER NOT NULL) STRICT;
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
  seq_first INTEGER, seq_last INTEGER, memo TEXT NOT NULL DEFAULT '') STRICT;
CREATE TABLE posting(
  entry INTEGER NOT NULL, book TEXT NOT NULL, account INTEGER NOT NULL, currency INTEGER NOT NULL,
  amount INTEGER NOT NULL, balance_after INTEGER, PRIMARY KEY(entry, book, account, currency)) STRICT, WITHOUT ROWID;
-- Running sums of the books that belong to the house: cash, grants, revenue, shortfall, breakage.
CREATE TABLE house(book TEXT NOT NULL, currency INTEGER NOT NULL, balance INTEGER NOT NULL, PRIMARY KEY(book, currency)) STRICT, WITHOUT ROWID;

-- Usage by day of admission. Amounts and tokens stand by line of the charge.
CREATE TABLE usage_day(
  account INTEGER NOT NULL, api_key INTEGER NOT NULL, day INTEGER NOT NULL, model INTEGER NOT NULL, currency INTEGER NOT NULL,
  requests INTEGER NOT NULL,
  input_tokens INTEGER NOT NULL, cache_read_tokens INTEGER NOT NULL, cache_write_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
  input_amount INTEGER NOT NULL, cache_read_amount INTEGER NOT NULL, cache_write_amount INTEGER NOT NULL, output_amount INTEGER NOT NULL,
  last_us INTEGER NOT NULL, PRIMARY KEY(account, api_key, day, model, currency)) STRICT, WITHOUT ROWID;
CREATE INDEX usage_day_day ON usage_day(account, day);

-- The single requests, packed (usagepage.go).
CREATE TABLE usage_page(
  account INTEGER NOT NULL, seq_first INTEGER NOT NULL, seq_last INTEGER NOT NULL,
  first_us INTEGER NOT NULL, last_us INTEGER NOT NULL, requests INTEGER NOT NULL, data BLOB NOT NULL,
  PRIMARY KEY(account, seq_first)) STRICT, WITHOUT ROWID;

-- What to charge for streams that were under way when the process died.
CREATE TABLE open_progress(hold INTEGER PRIMARY KEY, seq INTEGER NOT NULL, record BLOB NOT NULL) STRICT;

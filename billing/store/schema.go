package store

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"farebox/billing/journal"
)

// Version is that of the schema that this farebox reads and writes.
const Version = 15

// schema makes an empty database, for every engine: words in braces are
// replaced (dialect.words). Days are numbers such as 20261121, in UTC; times
// are Unix microseconds; amounts are nano, prices pico. Currencies: 1 USD, 2
// DIEM, 4 BUNDLED_CREDITS. node is 1 in an embedded store.
const schema = `
-- The cursors: up to which record of its journal each node has been applied.
-- inc is the incarnation that may go on; an older process of the node may not.
CREATE TABLE applied(
  node {I64} NOT NULL, sink TEXT NOT NULL, inc {I64} NOT NULL, seq {I64} NOT NULL, PRIMARY KEY(node, sink)) {KEYED};

CREATE TABLE account(
  no {SERIAL}, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL UNIQUE, created_us {I64} NOT NULL,
  diem_daily {I64} NOT NULL DEFAULT 0) {TABLE};

CREATE TABLE api_key(
  no {SERIAL}, id TEXT NOT NULL UNIQUE, account {I64} NOT NULL REFERENCES account,
  type {I64} NOT NULL, secret_mac {BLOB} NOT NULL UNIQUE, last6 TEXT NOT NULL, description TEXT NOT NULL,
  limit_period {I64} NOT NULL, limit_usd {I64}, limit_diem {I64},
  created_us {I64} NOT NULL, expires_us {I64} NOT NULL, revoked_us {I64} NOT NULL,
  limit_text_usd TEXT NOT NULL DEFAULT '', limit_text_diem TEXT NOT NULL DEFAULT '',
  privacy {I64} NOT NULL DEFAULT 1, version {I64} NOT NULL DEFAULT 1, last_used_us {I64} NOT NULL DEFAULT 0) {TABLE};
CREATE INDEX api_key_account ON api_key(account);

CREATE TABLE model(no {I64} PRIMARY KEY, id TEXT NOT NULL UNIQUE) {TABLE};

-- Money of an account. day is 0 except for DIEM, which are for one day each.
CREATE TABLE bucket(
  account {I64} NOT NULL, currency {I64} NOT NULL, day {I64} NOT NULL,
  granted {I64} NOT NULL, avail {I64} NOT NULL CHECK(avail >= 0), escrow {I64} NOT NULL DEFAULT 0 CHECK(escrow >= 0),
  spent {I64} NOT NULL DEFAULT 0 CHECK(spent >= 0), expired {I64} NOT NULL DEFAULT 0 CHECK(expired >= 0),
  CHECK(granted = avail + escrow + spent + expired), PRIMARY KEY(account, currency, day)) {KEYED};
CREATE INDEX bucket_diem ON bucket(day) WHERE currency = 2 AND avail > 0;

-- Double entry. The postings of an entry sum to 0 in each currency. Charges of
-- a whole batch are one entry, with one posting an account and currency.
CREATE TABLE entry(
  id {ID}, ts_us {I64} NOT NULL, kind TEXT NOT NULL, ref TEXT UNIQUE,
  seq_first {I64}, seq_last {I64}, memo TEXT NOT NULL DEFAULT '', node {I64}) {TABLE};
CREATE TABLE posting(
  entry {I64} NOT NULL, book TEXT NOT NULL, account {I64} NOT NULL, currency {I64} NOT NULL,
  amount {I64} NOT NULL, balance_after {I64}, PRIMARY KEY(entry, book, account, currency)) {KEYED};
-- Running sums of the books that belong to the house: cash, grants, revenue, debt, shortfall, late, breakage.
CREATE TABLE house(book TEXT NOT NULL, currency {I64} NOT NULL, balance {I64} NOT NULL, PRIMARY KEY(book, currency)) {KEYED};
` + usageDay + schema2 + schema3 + schema4 + schema6 + schema7 + schema8 + schema9 + schema10 + schema11 + schema12 + schema13 + schema14 + schema15 + postingNo

// usageDay is new in version 5: daily usage by the kind of sold units.
const usageDay = `
-- Usage by day of admission and by kind of what was sold (money.Kind). A request
-- counts with the last of its lines and the first currency that paid.
CREATE TABLE usage_day(
  account {I64} NOT NULL, api_key {I64} NOT NULL, day {I64} NOT NULL, model {I64} NOT NULL, currency {I64} NOT NULL, kind {I64} NOT NULL,
  requests {I64} NOT NULL, units {I64} NOT NULL, amount {I64} NOT NULL, last_us {I64} NOT NULL,
  PRIMARY KEY(account, api_key, day, model, currency, kind)) {KEYED};
CREATE INDEX usage_day_day ON usage_day(account, day);
`

// usageDay4 is how versions before 5 had daily usage: four classes of tokens, in
// which pictures and credits stood, too.
const usageDay4 = `
CREATE TABLE usage_day4(
  account {I64} NOT NULL, api_key {I64} NOT NULL, day {I64} NOT NULL, model {I64} NOT NULL, currency {I64} NOT NULL,
  requests {I64} NOT NULL,
  input_tokens {I64} NOT NULL, cache_read_tokens {I64} NOT NULL, cache_write_tokens {I64} NOT NULL, output_tokens {I64} NOT NULL,
  input_amount {I64} NOT NULL, cache_read_amount {I64} NOT NULL, cache_write_amount {I64} NOT NULL, output_amount {I64} NOT NULL,
  last_us {I64} NOT NULL, PRIMARY KEY(account, api_key, day, model, currency)) {KEYED};
`

// schema2 has the tables that are new in version 2.
const schema2 = `
-- The single requests, packed (usagepage.go). Sequences are those of a node.
CREATE TABLE usage_page(
  account {I64} NOT NULL, node {I64} NOT NULL, seq_first {I64} NOT NULL, seq_last {I64} NOT NULL,
  first_us {I64} NOT NULL, last_us {I64} NOT NULL, requests {I64} NOT NULL, data {BLOB} NOT NULL,
  PRIMARY KEY(account, node, seq_first)) {KEYED};

-- What to charge for streams that were under way when their process died.
CREATE TABLE open_progress(
  node {I64} NOT NULL, hold {I64} NOT NULL, seq {I64} NOT NULL, record {BLOB} NOT NULL, PRIMARY KEY(node, hold)) {KEYED};

-- The processes that share this store. op is the number of the last operation
-- on leases and answer what it granted; reclaims counts how often the leases
-- were taken back.
CREATE TABLE node(
  no {I64} PRIMARY KEY, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL, inc {I64} NOT NULL, started_us {I64} NOT NULL,
  expires_us {I64} NOT NULL, ended {I64} NOT NULL DEFAULT 0, op {I64} NOT NULL DEFAULT 0, answer {BLOB}, reclaims {I64} NOT NULL DEFAULT 0) {TABLE};

-- What a node may still spend of a bucket: its part of the bucket's escrow.
CREATE TABLE lease(
  node {I64} NOT NULL, account {I64} NOT NULL, currency {I64} NOT NULL, day {I64} NOT NULL,
  amount {I64} NOT NULL CHECK(amount >= 0), PRIMARY KEY(account, currency, day, node)) {KEYED};
CREATE INDEX lease_node ON lease(node);

-- What a node may still spend of a key's limit in a period (Period.number).
-- What all have spent is the sum of usage_day.
CREATE TABLE quota(
  node {I64} NOT NULL, api_key {I64} NOT NULL, currency {I64} NOT NULL, period {I64} NOT NULL,
  amount {I64} NOT NULL CHECK(amount >= 0), PRIMARY KEY(api_key, period, currency, node)) {KEYED};
CREATE INDEX quota_node ON quota(node);

-- What other nodes must hear of. The numbers come from counter in the order of
-- the commits, so that who has read up to one has missed none before it.
CREATE TABLE change(no {I64} PRIMARY KEY, kind {I64} NOT NULL, account {I64} NOT NULL, api_key {I64} NOT NULL, at_us {I64} NOT NULL) {TABLE};
CREATE TABLE counter(name TEXT PRIMARY KEY, value {I64} NOT NULL) {KEYED};
INSERT INTO counter(name, value) VALUES('change', 0);
CREATE TABLE setting(name TEXT PRIMARY KEY, value {BLOB} NOT NULL) {KEYED};

-- The last refusals by limits of each account.
CREATE TABLE violation(
  no {ID}, account {I64} NOT NULL, at_us {I64} NOT NULL, api_key {I64} NOT NULL, model TEXT NOT NULL, tier TEXT NOT NULL, kind TEXT NOT NULL) {TABLE};
CREATE INDEX violation_account ON violation(account, no);

-- Single-use tokens that were used.
CREATE TABLE token(id TEXT PRIMARY KEY, expires_us {I64} NOT NULL) {KEYED};
CREATE INDEX token_expires ON token(expires_us);
`

// schema3 was added in version 3: columns by which listings find entries without opening
// pages, and the types of models. An entry is one line of a request
// in one currency; all requests of a page ended in the same hour. Since version 5
// the types stay as they are: they tell the kinds of records of version 1
// (journal.SoldBefore), and mean nothing for later ones.
const schema3 = `
ALTER TABLE usage_page ADD COLUMN entries_diem {I64} NOT NULL DEFAULT 0;
ALTER TABLE usage_page ADD COLUMN entries_bundled {I64} NOT NULL DEFAULT 0;
ALTER TABLE usage_page ADD COLUMN entries_usd {I64} NOT NULL DEFAULT 0;
CREATE INDEX usage_page_time ON usage_page(account, first_us, node, seq_first, last_us, seq_last, requests, entries_diem, entries_bundled, entries_usd);
CREATE TABLE usage_hour(
  account {I64} NOT NULL, hour {I64} NOT NULL, node {I64} NOT NULL,
  entries_diem {I64} NOT NULL, entries_bundled {I64} NOT NULL, entries_usd {I64} NOT NULL, PRIMARY KEY(account, hour, node)) {KEYED};
ALTER TABLE model ADD COLUMN type TEXT NOT NULL DEFAULT 'text';
`

// schema4 was added in version 4: debt and status of accounts.
const schema4 = `
-- What accounts owe for requests that cost more than could be charged; a row
-- for each that ever did.
CREATE TABLE debt(
  account {I64} PRIMARY KEY REFERENCES account, incurred {I64} NOT NULL, paid {I64} NOT NULL CHECK(paid >= 0),
  CHECK(incurred >= paid)) {KEYED};
-- 0 open, 1 suspended, 2 closed; and since when.
ALTER TABLE account ADD COLUMN status {I64} NOT NULL DEFAULT 0;
ALTER TABLE account ADD COLUMN status_us {I64} NOT NULL DEFAULT 0;
`

// schema6 was added in version 6: reviews and uses of characters.
const schema6 = `
-- Reviews of characters, which are named by their slug; account 0: somebody without
-- one, hidden_us 0: it is shown.
CREATE TABLE review(
  no {ID}, id TEXT NOT NULL UNIQUE, slug TEXT NOT NULL, account {I64} NOT NULL,
  rating {I64} NOT NULL CHECK(rating >= 1 AND rating <= 5), locale TEXT NOT NULL, message TEXT NOT NULL,
  created_us {I64} NOT NULL, hidden_us {I64} NOT NULL DEFAULT 0) {TABLE};
CREATE UNIQUE INDEX review_once ON review(slug, account) WHERE account > 0 AND hidden_us = 0;
CREATE INDEX review_slug ON review(slug, created_us, no);
-- The accounts that each character has answered, and how many they are.
CREATE TABLE character_use(
  slug TEXT NOT NULL, account {I64} NOT NULL, first_us {I64} NOT NULL, PRIMARY KEY(slug, account)) {KEYED};
CREATE TABLE character_sum(slug TEXT PRIMARY KEY, imports {I64} NOT NULL) {KEYED};
INSERT INTO counter(name, value) VALUES('review', 0), ('character', 0);
`

// schema7 was added in version 7: jobs, and cloned voices.
const schema7 = `
-- Work that outlives its request (JobRow). hold is where its charge stands in the
-- journal of node; day is whose DIEM it took. A request is NULL once it counts for no
-- repeat any more.
CREATE TABLE job(
  id TEXT PRIMARY KEY, kind TEXT NOT NULL, model TEXT NOT NULL, named TEXT NOT NULL,
  account {I64} NOT NULL, api_key {I64} NOT NULL, request {BLOB}, node {I64} NOT NULL, hold {I64} NOT NULL,
  paid_diem {I64} NOT NULL DEFAULT 0, paid_bundled {I64} NOT NULL DEFAULT 0, paid_usd {I64} NOT NULL DEFAULT 0,
  paid_us {I64} NOT NULL DEFAULT 0, day {I64} NOT NULL DEFAULT 0,
  back_diem {I64} NOT NULL DEFAULT 0, back_bundled {I64} NOT NULL DEFAULT 0, back_usd {I64} NOT NULL DEFAULT 0,
  back_us {I64} NOT NULL DEFAULT 0, owed {I64} NOT NULL,
  state {I64} NOT NULL, owner {I64} NOT NULL, epoch {I64} NOT NULL, upstream TEXT NOT NULL, target TEXT NOT NULL,
  handle {BLOB}, ord {BLOB}, tries {I64} NOT NULL, cancel {I64} NOT NULL,
  code TEXT NOT NULL, error TEXT NOT NULL, suggestion TEXT NOT NULL, recommend TEXT NOT NULL, detail {BLOB},
  media_type TEXT NOT NULL, media_bytes {I64} NOT NULL,
  created_us {I64} NOT NULL, submitted_us {I64} NOT NULL, ended_us {I64} NOT NULL, expires_us {I64} NOT NULL,
  released_us {I64} NOT NULL DEFAULT 0, links_us {I64} NOT NULL DEFAULT 0,
  links {BLOB}, poked_us {I64} NOT NULL DEFAULT 0) {TABLE};
CREATE UNIQUE INDEX job_hold ON job(node, hold);
CREATE UNIQUE INDEX job_request ON job(account, request);
CREATE INDEX job_account ON job(account, created_us);
CREATE INDEX job_left ON job(owner) WHERE ` + jobLeft + `;
CREATE INDEX job_counts ON job(account, state, media_type, media_bytes) WHERE ` + jobLeft + `;
CREATE INDEX job_poked ON job(owner) WHERE poked_us > 0;
CREATE INDEX job_due ON job(created_us) WHERE ` + jobDue + `;
CREATE INDEX job_model ON job(model, ended_us) WHERE state = 4;
CREATE INDEX job_ended ON job(ended_us) WHERE state >= 4;
-- What failed jobs gave back of the limits of keys, by the day whose usage it was.
CREATE TABLE key_back(
  account {I64} NOT NULL, api_key {I64} NOT NULL, day {I64} NOT NULL, currency {I64} NOT NULL, amount {I64} NOT NULL,
  PRIMARY KEY(account, api_key, day, currency)) {KEYED};

-- Cloned voices, each of one account.
CREATE TABLE voice(
  id TEXT PRIMARY KEY, account {I64} NOT NULL, model TEXT NOT NULL, upstream TEXT NOT NULL, voice TEXT NOT NULL,
  created_us {I64} NOT NULL, used_us {I64} NOT NULL, expires_us {I64} NOT NULL) {TABLE};
CREATE INDEX voice_account ON voice(account, created_us);
CREATE INDEX voice_expires ON voice(expires_us);
`

// schema8 was added in version 8: payments of wallets, the accounts of their credit, and
// movements of a balance besides charges.
const schema8 = `
-- Signed payments of wallets (PaymentRow). A row is there before anybody else hears of
-- the payment. state: 1 submitted, 2 refused, 3 credited, 4 final, 5 dead. epoch counts
-- the credits: what credit number e booked has the reference payment:<id>:<e>.
CREATE TABLE payment(
  id TEXT PRIMARY KEY, network TEXT NOT NULL, asset TEXT NOT NULL, wallet TEXT NOT NULL,
  account {I64} NOT NULL DEFAULT 0, units {I64} NOT NULL, amount {I64} NOT NULL CHECK(amount > 0),
  same {BLOB} NOT NULL, ord {BLOB} NOT NULL, pay_until_us {I64} NOT NULL,
  state {I64} NOT NULL, epoch {I64} NOT NULL DEFAULT 1, version {I64} NOT NULL DEFAULT 1,
  owner {I64} NOT NULL, lease_us {I64} NOT NULL, tries {I64} NOT NULL DEFAULT 0, looks {I64} NOT NULL DEFAULT 0,
  next_us {I64} NOT NULL, gone_us {I64} NOT NULL DEFAULT 0,
  txn TEXT NOT NULL DEFAULT '', code TEXT NOT NULL DEFAULT '', reason TEXT NOT NULL DEFAULT '',
  resolved TEXT NOT NULL DEFAULT '', balance {I64} NOT NULL DEFAULT 0,
  created_us {I64} NOT NULL, credited_us {I64} NOT NULL DEFAULT 0, ended_us {I64} NOT NULL DEFAULT 0) {TABLE};
CREATE INDEX payment_left ON payment(next_us) WHERE ` + paymentLeft + `;
CREATE INDEX payment_open ON payment(wallet, created_us) WHERE ` + paymentOpen + `;
CREATE INDEX payment_created ON payment(created_us);
CREATE INDEX payment_wallet ON payment(wallet, created_us);
-- Wallets whose credit goes to, and whose spending comes from, another account.
CREATE TABLE wallet_link(address TEXT PRIMARY KEY, account {I64} NOT NULL, since_us {I64} NOT NULL, made_by TEXT NOT NULL) {TABLE};
CREATE INDEX wallet_link_account ON wallet_link(account);
-- Who credits payments, and who links wallets, waits for one another here.
INSERT INTO counter(name, value) VALUES('wallet', 0);
-- Postings to customers that are no charges are found by account.
ALTER TABLE posting ADD COLUMN moved {I64} NOT NULL DEFAULT 0;
CREATE INDEX posting_moved ON posting(account, entry) WHERE moved <> 0;
`

// markMoved marks the postings of before version 8.
const markMoved = `
UPDATE posting SET moved = 1 WHERE book = 'customer' AND entry IN (SELECT id FROM entry WHERE kind <> 'CHARGE');
`

// schema9 was added in version 9: answers of enclaves, for the signatures of their clients.
const schema9 = `
-- The answers that enclaves gave, for a day: by whose key they are sealed, and the
-- SHA-256 of what was sent and relayed.
CREATE TABLE enclave_answer(
  account {I64} NOT NULL, id TEXT NOT NULL, model TEXT NOT NULL, upstream TEXT NOT NULL, named TEXT NOT NULL,
  sealed_to TEXT NOT NULL, request {BLOB} NOT NULL, response {BLOB} NOT NULL, at_us {I64} NOT NULL,
  signature {BLOB}, PRIMARY KEY(account, id)) {KEYED};
CREATE INDEX enclave_answer_at ON enclave_answer(at_us);
`

// schema10 was added in version 10: the fair share that a payment takes (fair.Owner). Payments
// from before it belong to unpaid callers without an address.
const schema10 = `
ALTER TABLE payment ADD COLUMN share_account {I64} NOT NULL DEFAULT 0;
ALTER TABLE payment ADD COLUMN share_net {I64} NOT NULL DEFAULT 0;
CREATE INDEX payment_share ON payment(state, share_account, share_net, wallet) WHERE ` + paymentOpen + `;
`

// schema11 was added in version 11: every movement of a balance in the order of its
// booking, and consumption that is not a charge (moved.go).
const schema11 = `
-- Why an entry was made, where its memo says what for.
ALTER TABLE entry ADD COLUMN reason TEXT NOT NULL DEFAULT '';
-- The number of a customer's posting among those of its account and currency. Its
-- balance_after is what the account has in all buckets of the currency then.
ALTER TABLE posting ADD COLUMN no {I64};
-- Of a payment of debt, what a correction had left owed: it is no consumption.
ALTER TABLE posting ADD COLUMN corrected {I64} NOT NULL DEFAULT 0;
CREATE TABLE account_sum(
  account {I64} NOT NULL, currency {I64} NOT NULL, postings {I64} NOT NULL, balance {I64} NOT NULL,
  refunded {I64} NOT NULL DEFAULT 0, PRIMARY KEY(account, currency)) {KEYED};
-- What counts as consumption besides charges, by the day of its entry, as in usage_day:
-- what was given back (negative), and debt that was paid. Its detail is in usage_page,
-- as that of node 0, whose cursor numbers it. The column upstream came in version 14; the
-- step to version 11 writes it.
CREATE TABLE usage_moved(
  account {I64} NOT NULL, api_key {I64} NOT NULL, day {I64} NOT NULL, model {I64} NOT NULL, currency {I64} NOT NULL, kind {I64} NOT NULL,
  requests {I64} NOT NULL, units {I64} NOT NULL, amount {I64} NOT NULL, last_us {I64} NOT NULL, upstream {I64} NOT NULL DEFAULT 0,
  PRIMARY KEY(account, api_key, day, model, upstream, currency, kind)) {KEYED};
CREATE INDEX usage_moved_day ON usage_moved(account, day);
INSERT INTO applied(node, sink, inc, seq) VALUES(0, 'usage', 0, 0);
-- What accounts owe, the oldest first: the charge that left it, or nothing for a correction.
CREATE TABLE owed(no {ID}, account {I64} NOT NULL, record {BLOB} NOT NULL, amount {I64} NOT NULL CHECK(amount > 0)) {TABLE};
CREATE INDEX owed_account ON owed(account, no);
-- The charge of a job, for what it gives back.
ALTER TABLE job ADD COLUMN charge {BLOB};
-- Lists of jobs go on behind a place.
DROP INDEX job_account;
CREATE INDEX job_account ON job(account, created_us, id);
`

// schema12 was added in version 12: operators, and accounts' profiles for them.
const schema12 = `
-- Every change by an operator (AuditRow). The row of this counter lets operators change the
-- store one after the other.
CREATE TABLE audit(
  no {ID}, id TEXT NOT NULL UNIQUE, at_us {I64} NOT NULL, who TEXT NOT NULL, role TEXT NOT NULL, origin TEXT NOT NULL,
  operation TEXT NOT NULL, account {I64} NOT NULL, subject TEXT NOT NULL, reason TEXT NOT NULL, idem TEXT NOT NULL,
  digest {BLOB} NOT NULL, before_state TEXT NOT NULL, after_state TEXT NOT NULL, answer TEXT NOT NULL,
  day {I64} NOT NULL, credited {I64} NOT NULL) {TABLE};
CREATE UNIQUE INDEX audit_idem ON audit(who, idem) WHERE idem <> '';
CREATE INDEX audit_credited ON audit(who, day) WHERE credited > 0;
CREATE INDEX audit_account ON audit(account, no);
CREATE INDEX audit_subject ON audit(subject, no);
CREATE INDEX audit_who ON audit(who, no);
INSERT INTO counter(name, value) VALUES('operator', 0);
CREATE TABLE operator_token(
  id TEXT PRIMARY KEY, name TEXT NOT NULL, role {I64} NOT NULL, mac {BLOB} NOT NULL UNIQUE, max_credit {I64} NOT NULL,
  created_us {I64} NOT NULL, ends_us {I64} NOT NULL, revoked_us {I64} NOT NULL) {TABLE};
-- metadata is a JSON object of texts; low_balance 0: nobody is to be told. version counts
-- changes by operators.
ALTER TABLE account ADD COLUMN external_id TEXT;
ALTER TABLE account ADD COLUMN email TEXT NOT NULL DEFAULT '';
ALTER TABLE account ADD COLUMN company TEXT NOT NULL DEFAULT '';
ALTER TABLE account ADD COLUMN tax_id TEXT NOT NULL DEFAULT '';
ALTER TABLE account ADD COLUMN metadata TEXT NOT NULL DEFAULT '';
ALTER TABLE account ADD COLUMN low_balance {I64} NOT NULL DEFAULT 0;
ALTER TABLE account ADD COLUMN version {I64} NOT NULL DEFAULT 1;
ALTER TABLE account ADD COLUMN erased_us {I64} NOT NULL DEFAULT 0;
CREATE UNIQUE INDEX account_external ON account(external_id);
-- Lists over all accounts by time, and keys by their last characters.
CREATE INDEX entry_ts ON entry(ts_us, id);
CREATE INDEX api_key_last6 ON api_key(last6);
`

// schema13 was added in version 13.
const schema13 = schema13Usage + schema13Questions + schema13Requests

// postingNo comes when all postings have their numbers.
const postingNo = `
CREATE UNIQUE INDEX IF NOT EXISTS posting_no ON posting(account, currency, no) WHERE book = 'customer';
`

// fence lets processes of an older farebox book nothing any more: it does not
// know this one's records. Their nodes come back with this one, and their
// journals, too.
const fence = `
UPDATE applied SET inc = inc + 1 WHERE node IN (SELECT no FROM node);
UPDATE node SET inc = inc + 1;
`

// migrations bring a database and its rows forward from version i+1 to i+2.
// PostgreSQL was never at version 1.
var migrations = []string{`
ALTER TABLE account ADD COLUMN diem_daily {I64} NOT NULL DEFAULT 0;
ALTER TABLE api_key ADD COLUMN limit_text_usd TEXT NOT NULL DEFAULT '';
ALTER TABLE api_key ADD COLUMN limit_text_diem TEXT NOT NULL DEFAULT '';
ALTER TABLE api_key ADD COLUMN privacy {I64} NOT NULL DEFAULT 1;
ALTER TABLE api_key ADD COLUMN version {I64} NOT NULL DEFAULT 1;
ALTER TABLE api_key ADD COLUMN last_used_us {I64} NOT NULL DEFAULT 0;
ALTER TABLE entry ADD COLUMN node {I64};
UPDATE entry SET node = 1 WHERE seq_first IS NOT NULL;
ALTER TABLE applied RENAME TO applied1;
ALTER TABLE usage_page RENAME TO usage_page1;
ALTER TABLE open_progress RENAME TO open_progress1;
CREATE TABLE applied(
  node {I64} NOT NULL, sink TEXT NOT NULL, inc {I64} NOT NULL, seq {I64} NOT NULL, PRIMARY KEY(node, sink)) {KEYED};
` + schema2 + `
INSERT INTO applied(node, sink, inc, seq) SELECT 1, sink, 0, seq FROM applied1;
INSERT INTO usage_page(account, node, seq_first, seq_last, first_us, last_us, requests, data)
  SELECT account, 1, seq_first, seq_last, first_us, last_us, requests, data FROM usage_page1;
INSERT INTO open_progress(node, hold, seq, record) SELECT 1, hold, seq, record FROM open_progress1;
DROP TABLE applied1;
DROP TABLE usage_page1;
DROP TABLE open_progress1;
`, schema3, schema4 + fence, `
ALTER TABLE usage_day RENAME TO usage_day4;
DROP INDEX usage_day_day;
` + usageDay + fence, schema6 + fence, schema7 + fence, schema8 + markMoved + fence, schema9 + fence,
	schema10 + fence, schema11 + fence, schema12 + fence, schema13 + fence, schema14 + fence, schema15 + sqlAllDays + fence}

// steps follow the migration to a version where SQL alone cannot do it.
var steps = map[int]func(*tx) error{3: (*tx).repackPages, 5: (*tx).divideDays, 11: (*tx).numberPostings}

// unattended refuses a migration under the feet of processes that still work
// with the schema as it is.
func (t *tx) unattended(version int) error {
	if !t.s.shared {
		return nil // one process at a time has an embedded store open
	}
	names, err := values[string](&t.Query,
		"SELECT name FROM node WHERE ended = 0 AND expires_us > {NOW} ORDER BY no")
	if err != nil || len(names) == 0 {
		return err
	}
	return fmt.Errorf("cannot bring the ledger from schema %d to %d: an older farebox runs on it as %s; "+
		"make a backup with that one (farebox backup FILE), stop all its nodes, then start this one "+
		"(a node that was killed is forgotten when its session ends, half a minute after its last heartbeat)", version,
		Version, strings.Join(names, ", "))
}

// migrate brings the schema to the newest version, one version a transaction.
// A database of a later farebox is refused. Of several processes that start
// together one migrates and the others wait for it on the row or file that
// holds the version.
func (s *sqlStore) migrate() error {
	for version := -1; version < Version; {
		err := s.writeFor(s.dialect.long, func(t *tx) (err error) {
			if version, err = s.dialect.version(t); err != nil {
				return err
			}
			text, step := schema, (func(*tx) error)(nil)
			switch {
			case version > Version:
				return fmt.Errorf("the ledger was written by a newer farebox (schema %d, this one knows %d); start "+
					"that version, or restore a backup from before it with this one", version, Version)
			case version == Version:
				return nil
			case version == 0:
				version = Version
			default:
				if err := t.unattended(version); err != nil {
					return err
				}
				text = migrations[version-1]
				version++
				step = steps[version]
			}
			if _, err := t.Exec(s.dialect.words.Replace(text)); err != nil {
				return fmt.Errorf("cannot migrate the ledger to schema %d: %w", version, err)
			}
			if step != nil {
				if err := step(t); err != nil {
					return fmt.Errorf("cannot migrate the ledger to schema %d: %w", version, err)
				}
			}
			return s.dialect.setVersion(t, version)
		})
		if err != nil {
			return err
		}
	}
	return s.writeFor(s.dialect.timeout, func(t *tx) (err error) {
		s.before, err = t.loadBefore()
		return err
	})
}

// divideDays turns daily usage by class, in usage_day4, into sold units: by the
// types that models have now, which nothing changes any more.
func (q *Query) divideDays() error {
	var parts []string
	for class, name := range [...]string{"input", "cache_read", "cache_write", "output"} {
		kind := "CASE m.type"
		for _, typ := range slices.Sorted(maps.Keys(journal.ClassesByType)) {
			kind += fmt.Sprintf(" WHEN '%s' THEN %d", typ, journal.ClassesByType[typ][class])
		}
		kind += fmt.Sprintf(" ELSE %d END", journal.TextClasses[class])
		requests, some := "0", fmt.Sprintf(" WHERE %s_tokens <> 0 OR %s_amount <> 0", name, name)
		if name == "output" {
			requests, some = "requests", "" // every request counts with its last line
		}
		parts = append(parts, fmt.Sprintf(`SELECT account, api_key, day, model, currency, %s AS kind, %s AS requests,
			%s_tokens AS units, %s_amount AS amount, last_us FROM usage_day4 LEFT JOIN model m ON m.no = model%s`, kind,
			requests, name, name, some))
	}
	_, err := q.tx.Exec(q.s.dialect.words.Replace(
		`INSERT INTO usage_day(account, api_key, day, model, currency, kind, requests, units, amount, last_us)
		SELECT account, api_key, day, model, currency, kind, CAST(sum(requests) AS {I64}), CAST(sum(units) AS {I64}), CAST(sum(amount) AS {I64}), max(last_us)
		FROM (` + strings.Join(parts, " UNION ALL ") + `) AS x GROUP BY account, api_key, day, model, currency, kind`))
	if err != nil {
		return err
	}
	_, err = q.tx.Exec("DROP TABLE usage_day4")
	return err
}

package store

import (
	"database/sql"
	"errors"
)

// Models and upstreams have numbers in records and in sums of usage.

// schema14 was added in version 14: upstreams in all sums of usage, and indexes for lists.
const schema14 = `
CREATE TABLE upstream(no {I64} PRIMARY KEY, id TEXT NOT NULL UNIQUE) {TABLE};
ALTER TABLE usage_day RENAME TO usage_day13;
ALTER TABLE usage_moved RENAME TO usage_moved13;
ALTER TABLE usage_sum RENAME TO usage_sum13;
DROP INDEX usage_day_day;
DROP INDEX usage_moved_day;
-- upstream is the one that answered; 0: unknown, or several.
CREATE TABLE usage_day(
  account {I64} NOT NULL, api_key {I64} NOT NULL, day {I64} NOT NULL, model {I64} NOT NULL, currency {I64} NOT NULL, kind {I64} NOT NULL,
  requests {I64} NOT NULL, units {I64} NOT NULL, amount {I64} NOT NULL, last_us {I64} NOT NULL, upstream {I64} NOT NULL DEFAULT 0,
  PRIMARY KEY(account, api_key, day, model, upstream, currency, kind)) {KEYED};
CREATE TABLE usage_moved(
  account {I64} NOT NULL, api_key {I64} NOT NULL, day {I64} NOT NULL, model {I64} NOT NULL, currency {I64} NOT NULL, kind {I64} NOT NULL,
  requests {I64} NOT NULL, units {I64} NOT NULL, amount {I64} NOT NULL, last_us {I64} NOT NULL, upstream {I64} NOT NULL DEFAULT 0,
  PRIMARY KEY(account, api_key, day, model, upstream, currency, kind)) {KEYED};
CREATE TABLE usage_sum(
  account {I64} NOT NULL, ended {I64} NOT NULL, api_key {I64} NOT NULL, day {I64} NOT NULL, model {I64} NOT NULL,
  currency {I64} NOT NULL, kind {I64} NOT NULL, moved {I64} NOT NULL, requests {I64} NOT NULL, units {I64} NOT NULL,
  amount {I64} NOT NULL, shortfall {I64} NOT NULL, debt {I64} NOT NULL, upstream {I64} NOT NULL DEFAULT 0,
  PRIMARY KEY(account, ended, api_key, day, model, upstream, currency, kind, moved)) {KEYED};
INSERT INTO usage_day(account, api_key, day, model, currency, kind, requests, units, amount, last_us)
  SELECT account, api_key, day, model, currency, kind, requests, units, amount, last_us FROM usage_day13;
INSERT INTO usage_moved(account, api_key, day, model, currency, kind, requests, units, amount, last_us)
  SELECT account, api_key, day, model, currency, kind, requests, units, amount, last_us FROM usage_moved13;
INSERT INTO usage_sum(account, ended, api_key, day, model, currency, kind, moved, requests, units, amount, shortfall, debt)
  SELECT account, ended, api_key, day, model, currency, kind, moved, requests, units, amount, shortfall, debt FROM usage_sum13;
DROP TABLE usage_day13;
DROP TABLE usage_moved13;
DROP TABLE usage_sum13;
CREATE INDEX usage_day_day ON usage_day(account, day);
CREATE INDEX usage_moved_day ON usage_moved(account, day);
` + listIndexes

func (s *sqlStore) AddModel(id string) (num uint32, err error) { return s.number("model", id) }

func (s *sqlStore) AddUpstream(id string) (num uint32, err error) { return s.number("upstream", id) }

// number gives the number of an id in a table of ids; a new one gets the next.
func (s *sqlStore) number(table, id string) (num uint32, err error) {
	err = s.write(func(t *tx) error {
		find := func() error { return t.Row("SELECT no FROM "+table+" WHERE id = $1", id).Scan(&num) }
		if err := find(); !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if err := t.alone(); err != nil {
			return err
		}
		if err := find(); !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		return t.Row("INSERT INTO "+table+"(no, id) SELECT coalesce(max(no), 0) + 1, CAST($1 AS TEXT) FROM "+table+
			" RETURNING no", id).Scan(&num)
	})
	return num, err
}

func (s *sqlStore) Models() (map[uint32]string, error) { return ask(s, (*Query).Models) }

// Models gives all models by number.
func (q *Query) Models() (map[uint32]string, error) { return q.numbered("model") }

func (s *sqlStore) Upstreams() (map[uint32]string, error) { return ask(s, (*Query).Upstreams) }

// Upstreams gives all upstreams by number.
func (q *Query) Upstreams() (map[uint32]string, error) { return q.numbered("upstream") }

func (q *Query) numbered(table string) (map[uint32]string, error) {
	ids := map[uint32]string{}
	return ids, each2(q, func(number uint32, id string) { ids[number] = id }, "SELECT no, id FROM "+table)
}

func (s *sqlStore) FindModel(number uint32) (string, error) { return s.numberedAs("model", number) }

func (s *sqlStore) FindUpstream(number uint32) (string, error) {
	return s.numberedAs("upstream", number)
}

func (s *sqlStore) numberedAs(table string, number uint32) (string, error) {
	id, err := value[string](s, "SELECT id FROM "+table+" WHERE no = $1", int64(number))
	return id, noRow(err)
}

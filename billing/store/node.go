package store

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"farebox/billing/money"
)

// ErrReclaimed says that this node's leases were taken back: the money in its
// memory is not its own any more. The next Beat says so, too, and with that the
// node may go on.
var ErrReclaimed = errors.New("the leases of this node were taken back")

// ErrFeedGap says that changes which a node has not read are deleted already.
var ErrFeedGap = errors.New("this node has been away from the store for too long: restart it")

// feedFor is how long changes are kept.
const feedFor = 7 * 24 * time.Hour

func (s *postgresStore) Join(id, name string, ttl time.Duration) (number, inc uint32, err error) {
	var reclaims int64
	err = s.write(func(t *tx) error {
		find := func() error {
			return t.Row("SELECT no, inc + 1, reclaims FROM node WHERE id = $1 FOR UPDATE", id).Scan(&number, &inc,
				&reclaims)
		}
		err := find()
		if errors.Is(err, sql.ErrNoRows) {
			if err = t.alone(); err == nil {
				err = find()
			}
		}
		if errors.Is(err, sql.ErrNoRows) {
			inc, reclaims = 1, 0
			err = t.Row(`INSERT INTO node(no, id, name, inc, started_us, expires_us)
				SELECT coalesce(max(no), 0) + 1, CAST($1 AS TEXT), CAST($2 AS TEXT), 0, 0, 0 FROM node RETURNING no`,
				id, name).Scan(&number)
		}
		if err != nil {
			return err
		}
		if _, err := t.exec("UPDATE node SET name = $2, inc = $3, started_us = {NOW}, expires_us = {NOW} + $4, ended "+
			"= 0 WHERE no = $1",
			number, name, inc, ttl.Microseconds()); err != nil {
			return err
		}
		// An older process that is just applying a batch comes to its end first;
		// its next one finds that the incarnation is another.
		if _, err := t.exec(`INSERT INTO applied(node, sink, inc, seq) VALUES($1, 'ledger', $2, 0), ($1, 'usage', $2, 0)
			ON CONFLICT(node, sink) DO UPDATE SET inc = excluded.inc`, number, inc); err != nil {
			return err
		}
		_, err = t.exec("DELETE FROM change WHERE at_us < {NOW} - $1", feedFor.Microseconds())
		return err
	})
	if err == nil {
		s.node, s.inc = number, inc
		s.reclaims.Store(reclaims)
	}
	return number, inc, err
}

// nodeState is the row of this node, locked.
type nodeState struct {
	ended, reclaims int64
	op              uint64
	answer          []byte
}

func (t *tx) nodeState() (n nodeState, err error) {
	var inc uint32
	err = t.Row("SELECT inc, ended, reclaims, op, answer FROM node WHERE no = $1 FOR UPDATE", t.s.node).Scan(&inc,
		&n.ended, &n.reclaims, &n.op, &n.answer)
	if errors.Is(err, sql.ErrNoRows) || err == nil && inc != t.s.inc {
		return n, ErrFenced
	}
	return n, err
}

func (s *postgresStore) Beat(ttl time.Duration) (b Beat, err error) {
	var reclaims int64
	err = s.writeFor(leaseTimeout, func(t *tx) error {
		err := t.Row("UPDATE node SET expires_us = {NOW} + $3 WHERE no = $1 AND inc = $2 AND ended = 0 RETURNING "+
			"expires_us - $3, reclaims",
			s.node, s.inc, ttl.Microseconds()).Scan(&b.NowUs, &reclaims)
		if errors.Is(err, sql.ErrNoRows) {
			return ErrFenced
		}
		if err != nil {
			return err
		}
		return t.Row(`SELECT (SELECT count(*) FROM node WHERE ended = 0 AND expires_us > $1), (SELECT value FROM counter WHERE name = 'change'),
			(SELECT CAST(coalesce(sum(incurred - paid), 0) AS {I64}) FROM debt)`, b.NowUs).Scan(&b.Live, &b.Feed,
			&b.Debt)
	})
	if err == nil {
		b.Reclaimed = s.reclaims.Swap(reclaims) != reclaims
	}
	return b, err
}

func (s *postgresStore) Now() (int64, error) { return value[int64](s.sqlStore, "SELECT {NOW}") }

func (s *postgresStore) Leave() error {
	return s.write(func(t *tx) error {
		if n, err := t.nodeState(); err != nil || n.ended != 0 {
			return err
		}
		if _, err := t.giveBack(s.node); err != nil {
			return err
		}
		_, err := t.exec("UPDATE node SET ended = 1, expires_us = 0 WHERE no = $1", s.node)
		return err
	})
}

// giveBack ends all leases of a node. Its row is locked.
func (t *tx) giveBack(number uint32) (amount money.Parts, err error) {
	if err := t.lockRows(`SELECT b.account FROM lease l
		JOIN bucket b ON b.account = l.account AND b.currency = l.currency AND b.day = l.day
		WHERE l.node = $1 ORDER BY b.account, b.currency, b.day FOR UPDATE OF b`, number); err != nil {
		return amount, err
	}
	err = each2(&t.Query, func(c money.Currency, n money.Nano) {
		amount[money.PlaceOf(c)] = n
	}, "SELECT currency, CAST(sum(amount) AS {I64}) FROM lease WHERE node = $1 GROUP BY currency", number)
	if err != nil {
		return amount, err
	}
	if err := t.lockRows(
		"SELECT api_key FROM quota WHERE node = $1 ORDER BY api_key, period, currency FOR UPDATE", number); err != nil {
		return amount, err
	}
	for _, text := range []string{
		`UPDATE bucket SET avail = avail + l.amount, escrow = escrow - l.amount FROM lease l
			WHERE l.node = $1 AND bucket.account = l.account AND bucket.currency = l.currency AND bucket.day = l.day`,
		"DELETE FROM lease WHERE node = $1",
		"DELETE FROM quota WHERE node = $1",
	} {
		if _, err := t.exec(text, number); err != nil {
			return amount, err
		}
	}
	return amount, nil
}

func (s *postgresStore) Reclaim(grace time.Duration) (done []Reclaimed, err error) {
	dead, err := ask(s.sqlStore, func(q *Query) ([]uint32, error) {
		return values[uint32](q, `SELECT no FROM node
			WHERE ended = 0 AND expires_us < {NOW} - $1 AND (EXISTS(SELECT 1 FROM lease l WHERE l.node = node.no)
			OR EXISTS(SELECT 1 FROM quota q WHERE q.node = node.no)) ORDER BY no`, grace.Microseconds())
	})
	if err != nil {
		return nil, err
	}
	for _, number := range dead {
		r, err := s.reclaim(number, grace)
		if err != nil {
			return done, err
		}
		if r.No != 0 {
			done = append(done, r)
		}
	}
	return done, nil
}

// reclaim takes back one node's leases, unless it has come back meanwhile: no 0.
func (s *postgresStore) reclaim(number uint32, grace time.Duration) (r Reclaimed, err error) {
	err = s.write(func(t *tx) error {
		r = Reclaimed{}
		var name string
		err := t.Row("SELECT name FROM node WHERE no = $1 AND expires_us < {NOW} - $2 FOR UPDATE", number,
			grace.Microseconds()).Scan(&name)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		amount, err := t.giveBack(number)
		if err != nil {
			return err
		}
		r = Reclaimed{No: number, Name: name, Amount: amount}
		_, err = t.exec("UPDATE node SET reclaims = reclaims + 1 WHERE no = $1", number)
		return err
	})
	return r, err
}

func (s *postgresStore) ReleaseNode(nameOrID string) error {
	var number uint32
	var found int
	var left int64
	err := s.read(func(q *Query) error {
		return q.Row(`SELECT coalesce(min(no), 0), count(*), coalesce(max(expires_us), 0) - {NOW} FROM node WHERE id = $1 OR name = $1`, nameOrID).Scan(&number, &found, &left)
	})
	switch {
	case err != nil:
		return err
	case found == 0:
		return fmt.Errorf("there is no node %q", nameOrID)
	case found > 1:
		return fmt.Errorf("%d nodes are called %q: give the id of one", found, nameOrID)
	}
	r, err := s.reclaim(number, 0)
	if err == nil && r.No == 0 {
		return fmt.Errorf("the node %q is alive: stop it first; its session ends %s after its last heartbeat", nameOrID,
			max(0, time.Duration(left)*time.Microsecond).Round(time.Second))
	}
	return err
}

func (s *postgresStore) Nodes() ([]NodeRow, error) {
	return ask(s.sqlStore, func(q *Query) ([]NodeRow, error) {
		nodes, err := list(q, func(n *NodeRow) []any {
			return []any{&n.No, &n.Inc, &n.ID, &n.Name, &n.ExpiresUs, &n.Left}
		}, "SELECT no, inc, id, name, expires_us, ended <> 0 FROM node ORDER BY no")
		if err != nil {
			return nil, err
		}
		err = each3(q, func(number uint32, c money.Currency, n money.Nano) {
			if i := slices.IndexFunc(nodes, func(n NodeRow) bool { return n.No == number }); i >= 0 {
				nodes[i].Leased[money.PlaceOf(c)] = n
			}
		}, "SELECT node, currency, CAST(sum(amount) AS {I64}) FROM lease GROUP BY node, currency")
		return nodes, err
	})
}

func (s *postgresStore) Changes(after uint64) ([]Change, error) {
	const most = 10_000
	return ask(s.sqlStore, func(q *Query) ([]Change, error) {
		var last uint64
		if err := q.Row("SELECT value FROM counter WHERE name = 'change'").Scan(&last); err != nil || last <= after {
			return nil, err
		}
		changes, err := list(q, func(c *Change) []any { return []any{&c.No, &c.Kind, &c.Account, &c.Key} },
			"SELECT no, kind, account, api_key FROM change WHERE no > $1 ORDER BY no LIMIT $2", after, most)
		if err == nil && (len(changes) == 0 || changes[0].No != after+1) {
			err = ErrFeedGap
		}
		return changes, err
	})
}

var _ Shared = (*postgresStore)(nil)

// Recalls of leases, and their answers, are changes: a node reads in the feed
// the requests to it, and the asking node reads which nodes have answered.

const (
	// sqlHolders are the other nodes with a session that have leases of accounts.
	sqlHolders = `SELECT h.account, h.node FROM (SELECT account, node FROM lease WHERE account = ANY($1) AND amount > 0
		UNION SELECT k.account, q.node FROM api_key k JOIN quota q ON q.api_key = k.no
			WHERE k.account = ANY($1) AND q.amount > 0) h
		JOIN node n ON n.no = h.node WHERE n.no <> $2 AND n.ended = 0 AND n.expires_us > {NOW} ORDER BY h.account, h.node`
	sqlAnswered = "SELECT api_key, account FROM change WHERE no > $1 AND kind = $2 AND api_key = ANY($3) ORDER BY no"
)

func (s *postgresStore) Recall(but uint32, accounts ...uint32) (list []Recall, err error) {
	err = s.writeFor(leaseTimeout, func(t *tx) error {
		holders, err := t.holders(accounts)
		if err != nil {
			return err
		}
		list = list[:0]
		for _, account := range accounts {
			t.change(ChangeRecall, account, int64(but))
			list = append(list, Recall{Account: account, Nodes: holders[account]})
		}
		if err := t.finish(); err != nil {
			return err
		}
		for i := range list {
			list[i].No = t.last - uint64(len(list)-1-i)
		}
		t.changes = nil
		return nil
	})
	return list, err
}

func (s *postgresStore) Recalled(list []Recall) (found []Recalled, err error) {
	accounts, nos, first := make([]uint32, len(list)), make([]int64, len(list)), int64(0)
	at := make(map[uint64]int, len(list))
	for i := range list {
		accounts[i], nos[i], at[list[i].No] = list[i].Account, int64(list[i].No), i
	}
	if len(nos) > 0 {
		first = slices.Min(nos)
	}
	err = s.snapshot(leaseTimeout, func(q *Query) error {
		holders, err := q.holders(accounts)
		if err != nil {
			return err
		}
		found = make([]Recalled, len(list))
		for i, account := range accounts {
			found[i].Nodes = holders[account]
		}
		return each2(q, func(number uint64, node uint32) {
			if i, ok := at[number]; ok {
				found[i].Answered = append(found[i].Answered, node)
			}
		}, sqlAnswered, first, int64(changeAnswered), nos)
	})
	return found, err
}

func (q *Query) holders(accounts []uint32) (map[uint32][]uint32, error) {
	nos := make([]int64, len(accounts))
	for i, number := range accounts {
		nos[i] = int64(number)
	}
	found := map[uint32][]uint32{}
	return found, each2(q, func(account, node uint32) {
		found[account] = append(found[account], node)
	}, sqlHolders, nos, q.s.node)
}

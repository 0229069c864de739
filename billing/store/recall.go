package store

import (
	"database/sql"
	"slices"
)

// Recalls of leases, and their answers, are changes: a node reads in the feed
// what it is asked for, and whoever asks reads who has answered.

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
		return q.Each(func(rows *sql.Rows) error {
			var no uint64
			var node uint32
			err := rows.Scan(&no, &node)
			if i, ok := at[no]; ok {
				found[i].Answered = append(found[i].Answered, node)
			}
			return err
		}, sqlAnswered, first, int64(changeAnswered), nos)
	})
	return found, err
}

func (q *Query) holders(accounts []uint32) (map[uint32][]uint32, error) {
	nos := make([]int64, len(accounts))
	for i, no := range accounts {
		nos[i] = int64(no)
	}
	found := map[uint32][]uint32{}
	return found, q.Each(func(rows *sql.Rows) error {
		var account, node uint32
		err := rows.Scan(&account, &node)
		found[account] = append(found[account], node)
		return err
	}, sqlHolders, nos, q.s.node)
}

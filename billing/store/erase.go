package store

import (
	"errors"
	"fmt"
)

// Erased counts the removed rows of an account. Files and voices go a minute later.
type Erased struct {
	KeptAnswers int64 `json:"kept_answers"` // of requests with an idempotency key, of responses and their items
	Keys        int64 `json:"keys"`         // descriptions
	WalletLinks int64 `json:"wallet_links"`
	Reviews     int64 `json:"reviews"`
	Memos       int64 `json:"memos"` // of credits, debits and refunds, and their reasons
	Jobs        int64 `json:"jobs"`  // texts
	Media       int64 `json:"media"` // files
	Voices      int64 `json:"voices"`
	Violations  int64 `json:"violations"`
	Requests    int64 `json:"requests"`   // details; the books keep their costs
	Characters  int64 `json:"characters"` // that it has used
	Sealed      int64 `json:"sealed"`     // answers of enclaves
	Audit       int64 `json:"audit"`      // states and answers in the audit log
	OpenJobs    int64 `json:"open_jobs"`  // that are under way: erase again once they have ended
}

// Erase removes a closed account's identity and texts: names, profile, descriptions, links of
// wallets, texts of reviews, jobs and memos, and their copies in the audit log. Its keys are
// revoked. The books stay. The numbers of removed rows are added to removed.
func (s *sqlStore) Erase(account uint32, nowUs int64, removed *Erased) error {
	kept, requests := removed.KeptAnswers, removed.Requests
	err := s.write(func(t *tx) error {
		*removed = Erased{KeptAnswers: kept, Requests: requests}
		if err := t.wipe(true); err != nil {
			return err
		}
		var id string
		var status AccountStatus
		err := t.Row("SELECT id, status FROM account WHERE no = $1 {LOCK}", account).Scan(&id, &status)
		switch {
		case err != nil:
			return noRow(err)
		case status != AccountClosed:
			return fmt.Errorf("it is %s: close it first", status)
		}
		wallets, err := keys.all(&t.Query, "k.account = $1 AND k.type = 3 AND k.revoked_us = 0", account)
		if err != nil {
			return err
		}
		for _, k := range wallets {
			if _, err := t.retireKey(k.Digest, nowUs); err != nil {
				return err
			}
		}
		if err := t.erase(account, id, nowUs, removed); err != nil {
			return err
		}
		list, err := values[int64](&t.Query, "SELECT no FROM api_key WHERE account = $1", account)
		for _, number := range list {
			t.change(ChangeKey, account, number)
		}
		t.change(ChangeAccount, account, 0)
		return errors.Join(err, t.bump("review"), t.wipe(false))
	})
	if err != nil || s.shared {
		return err
	}
	// The log still has the removed rows.
	_, err = s.writer.Exec("PRAGMA wal_checkpoint(TRUNCATE)")
	return s.shown(err)
}

// eraseRequests is how many details of requests one transaction erases.
const eraseRequests = 1000

// EraseRequests removes the details of an account's requests, in steps during traffic.
func (s *sqlStore) EraseRequests(account uint32) (removed int64, err error) {
	for n := int64(eraseRequests); err == nil && n == eraseRequests; removed += n {
		err = s.write(func(t *tx) error {
			n = 0
			if err := t.wipe(true); err != nil {
				return err
			}
			gone, err := t.affect(sqlPurgeRequestsOf, account, eraseRequests)
			if n = gone; err != nil {
				return err
			}
			return t.wipe(false)
		})
	}
	return removed, err
}

// wipe has SQLite overwrite the pages that the transaction frees.
func (t *tx) wipe(on bool) error {
	if t.s.shared {
		return nil
	}
	text := "PRAGMA secure_delete = FAST"
	if on {
		text = "PRAGMA secure_delete = ON"
	}
	return t.Tx.QueryRowContext(t.ctx, text).Scan(new(int))
}

// erase is Erase for the rows that have a text or a file.
func (t *tx) erase(account uint32, id string, nowUs int64, removed *Erased) error {
	const ended = "state >= 4"
	err := t.Row("SELECT count(*) FROM job WHERE account = $1 AND NOT ("+ended+")", account).Scan(&removed.OpenJobs)
	if err == nil {
		err = t.Row("SELECT count(*) FROM voice WHERE account = $1", account).Scan(&removed.Voices)
	}
	if err == nil {
		err = t.Row("SELECT count(*) FROM job WHERE account = $1 AND "+ended+" AND media_type <> ''", account).Scan(&removed.Media)
	}
	if err != nil {
		return err
	}
	const own = "account = $1"
	for _, e := range []struct {
		count *int64
		text  string
		args  []any
	}{
		{nil, `UPDATE account SET name = $2, external_id = NULL, email = '', company = '', tax_id = '', metadata = '', low_balance = 0,
			erased_us = $3, version = version + 1 WHERE no = $1`, []any{ErasedName(id), nowUs}},
		{nil, "UPDATE api_key SET revoked_us = $2, version = version + 1 WHERE revoked_us = 0 AND " + own, []any{nowUs}},
		{&removed.Keys, "UPDATE api_key SET description = '' WHERE description <> '' AND " + own, nil},
		{&removed.WalletLinks, "DELETE FROM wallet_link WHERE " + own, nil},
		{&removed.Sealed, "DELETE FROM enclave_answer WHERE " + own, nil},
		{&removed.Violations, "DELETE FROM violation WHERE " + own, nil},
		{&removed.Characters, "DELETE FROM character_use WHERE " + own, nil},
		{&removed.Reviews, "UPDATE review SET message = '', hidden_us = $2 WHERE message <> '' AND " + own, []any{nowUs}},
		{nil, "UPDATE review SET hidden_us = $2 WHERE hidden_us = 0 AND " + own, []any{nowUs}},
		{nil, "UPDATE voice SET expires_us = $2 WHERE expires_us > $2 AND " + own, []any{nowUs}},
		{nil, "UPDATE job SET expires_us = $2 WHERE expires_us > $2 AND " + ended + " AND " + own, []any{nowUs}},
		{&removed.Jobs, "UPDATE job SET ord = NULL, detail = NULL, error = '', suggestion = '', links = NULL WHERE " + ended + " AND " + own +
			" AND (ord IS NOT NULL OR detail IS NOT NULL OR error <> '' OR suggestion <> '' OR links IS NOT NULL)", nil},
		{&removed.Memos, "UPDATE entry SET memo = '', reason = '' WHERE (memo <> '' OR reason <> '') AND id IN (SELECT entry FROM posting WHERE " +
			"moved <> 0 AND " + own + ")", nil},
		{&removed.Audit, "UPDATE audit SET before_state = '', after_state = '', answer = '' WHERE (before_state <> '' OR after_state <> '' OR " +
			"answer <> '') AND " + own, nil},
	} {
		n, err := t.affect(e.text, append([]any{account}, e.args...)...)
		if err != nil {
			return err
		}
		if e.count != nil {
			*e.count = n
		}
	}
	return nil
}

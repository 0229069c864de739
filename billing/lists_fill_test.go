package billing

import (
	"crypto/sha256"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"farebox/billing/calendar"
	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/billing/store"
	"farebox/config"
)

// fullStore is a store with so many rows in every list. Half of the rows of a list belong to the
// account "big", the others to the accounts added with them: older accounts get no more rows.
type fullStore struct {
	t        *testing.T
	f        *fixture
	random   *rand.Rand
	seq      uint64
	accounts int // so far
	older    int // of them, those that grow no more
	requests int
	rows     int // of other lists
	begin    time.Time
}

const (
	fullDays    = 100
	fullKeys    = 10    // of an account
	fullBatch   = 2000  // requests of one batch, at most
	fullBusy    = 200   // accounts in one batch
	fullReviews = 50000 // at most, half of store.MaxReviews
	fullTokens  = 10000 // at most
)

func newFullStore(t *testing.T) *fullStore {
	begin := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -fullDays)
	f := openLedger(t, func(o *Options) { o.Clock, o.segmentSize = nil, 0 })
	return &fullStore{t: t, f: f, random: rand.New(rand.NewPCG(1, 2)), begin: begin}
}

// grow adds rows up to these numbers, with sums that a recount confirms.
func (s *fullStore) grow(requests, accounts, rows int) {
	s.t.Helper()
	if err := s.f.project.drain(); err != nil {
		s.t.Fatal(err)
	}
	db := database(s.f.store)
	tx, err := db.Begin()
	if err != nil {
		s.t.Fatal(err)
	}
	s.older = s.accounts
	s.addAccounts(tx, accounts)
	for _, part := range s.lists(s.rows, rows) {
		if _, err := tx.Exec(part); err != nil {
			s.t.Fatalf("%v: %s", err, part)
		}
	}
	if err := tx.Commit(); err != nil {
		s.t.Fatal(err)
	}
	s.rows = rows
	s.addUsage(requests)
	s.f.reopen()
}

// addAccounts adds accounts with their keys and money. The first one is "big".
func (s *fullStore) addAccounts(tx *sql.Tx, to int) {
	exec := func(text string, args ...any) {
		if _, err := tx.Exec(text, args...); err != nil {
			s.t.Fatal(err)
		}
	}
	for no := s.accounts + 1; no <= to; no++ {
		name := fmt.Sprint("account-", no)
		if no == 1 {
			name = "big"
		}
		exec("INSERT INTO account(no, id, name, created_us, external_id, status) VALUES($1, $2, $3, $4, $5, $6)", no, newUUID(), name,
			s.begin.UnixMicro()+int64(no), fmt.Sprint("x", no), no%2)
		for n := range fullKeys {
			digest := sha256.Sum256(fmt.Append(nil, no, " ", n))
			var limit any
			if n == 0 {
				limit = int64(1e15)
			}
			exec(`INSERT INTO api_key(no, id, account, type, secret_mac, last6, description, limit_period, limit_usd, created_us, expires_us,
				revoked_us) VALUES($1, $2, $3, $4, $5, $6, $7, 2, $8, 1, 0, $9)`, no*fullKeys+n, newUUID(), no, 1+n%2*2, digest[:],
				fmt.Sprintf("%06x", digest[:3]), fmt.Sprint("Wallet 0x", no), limit, n/5)
		}
		exec("INSERT INTO bucket(account, currency, day, granted, avail) VALUES($1, 1, 0, 0, 0)", no)
		exec("INSERT INTO account_sum(account, currency, postings, balance) VALUES($1, 1, 0, 0)", no)
	}
	s.accounts = to
}

// lists are the statements that add rows number from to to of the lists.
func (s *fullStore) lists(from, to int) (list []string) {
	numbers := func(most int) string {
		return fmt.Sprintf("WITH RECURSIVE c(x) AS (SELECT %d WHERE %[1]d < %d UNION ALL SELECT x + 1 FROM c WHERE x < %[2]d - 1) ",
			min(from, most), min(to, most))
	}
	const amount = 1_000_000_000_000
	words := strings.NewReplacer("{ACCOUNT}", fmt.Sprintf("(CASE x %% 2 WHEN 0 THEN 1 ELSE %d + x / 2 %% %d END)", 1+s.older, s.accounts-s.older), "{AT}",
		fmt.Sprintf("(%d + x * %d)", s.begin.UnixMicro(), int64(fullDays)*86_400_000_000/int64(max(to, 1))), "{ID}", "lower(hex(randomblob(16)))",
		"{AMOUNT}", fmt.Sprint(int64(amount)))
	add := func(most int, text string) {
		list = append(list, words.Replace(strings.Replace(text, "{ROWS}", numbers(most), 1)))
	}
	add(to, `CREATE TEMP TABLE credit AS {ROWS} SELECT x, (SELECT coalesce(max(id), 0) FROM entry) + 1 + x AS entry, {ACCOUNT} AS account,
		{AT} AS at, row_number() OVER (PARTITION BY {ACCOUNT} ORDER BY x) AS n FROM c`)
	add(to, `INSERT INTO entry(id, ts_us, kind, ref, memo) SELECT entry, at, 'TOP_UP', 'fill-' || x, 'wire' FROM credit`)
	add(to, `INSERT INTO posting(entry, book, account, currency, amount) SELECT entry, 'cash', 0, 1, -{AMOUNT} FROM credit`)
	add(to, `INSERT INTO posting(entry, book, account, currency, amount, balance_after, moved, no) SELECT entry, 'customer', c.account, 1,
		{AMOUNT}, s.balance + n * {AMOUNT}, 1, s.postings + n FROM credit c JOIN account_sum s ON s.account = c.account AND s.currency = 1`)
	for _, text := range []string{"bucket SET granted = granted + n, avail = avail + n", "account_sum SET balance = balance + n, postings = postings + m"} {
		add(to, "UPDATE "+text+` FROM (SELECT account AS a, count(*) * {AMOUNT} AS n, count(*) AS m FROM credit GROUP BY account) WHERE account = a
			AND currency = 1`)
	}
	add(to, `INSERT INTO house SELECT 'cash', 1, -count(*) * {AMOUNT} FROM credit WHERE true ON CONFLICT(book, currency) DO UPDATE SET
		balance = house.balance + excluded.balance`)
	add(to, `INSERT INTO balance_day SELECT at / 86400000000, 1, count(*) * {AMOUNT} FROM credit GROUP BY 1 ON CONFLICT(day, currency)
		DO UPDATE SET amount = balance_day.amount + excluded.amount`)
	add(to, "DROP TABLE credit")
	add(to, `INSERT INTO audit(id, at_us, who, role, origin, operation, account, subject, reason, idem, digest, before_state, after_state, answer,
		day, credited) {ROWS} SELECT {ID}, {AT}, 'who-' || x % 2, 'owner', 'here', 'operation-' || x % 2, {ACCOUNT}, 'subject-' || x % 2, '', '', x'00', '{}',
		'{}', '{}', 20260101, 0 FROM c`)
	add(to, `INSERT INTO job(id, kind, model, named, account, api_key, node, hold, owed, state, owner, epoch, upstream, target, tries, cancel, code,
		error, suggestion, recommend, media_type, media_bytes, created_us, submitted_us, ended_us, expires_us, released_us) {ROWS} SELECT {ID},
		'music', 'model-' || x % 2, 'm', {ACCOUNT}, 10, 1, 1000000000000 + x, 0, 4, 1, 1, 'u', 't', 1, 0, '', '', '', '', '', 0, {AT}, {AT}, {AT},
		{AT}, {AT} FROM c`)
	add(to, `INSERT INTO payment(id, network, asset, wallet, account, units, amount, same, ord, pay_until_us, state, owner, lease_us, next_us,
		created_us, ended_us) {ROWS} SELECT {ID}, 'n', 'a', 'wallet-' || x % 2, {ACCOUNT}, 1, 1, x'00', x'', 0, 5, 1, 0, 0, {AT}, {AT} FROM c`)
	add(fullReviews, `INSERT INTO review(id, slug, account, rating, locale, message, created_us, hidden_us) {ROWS} SELECT {ID}, 'slug-' || x % 2, 0, 5,
		'en', 'm', {AT}, 0 FROM c`)
	add(fullTokens, `INSERT INTO operator_token(id, name, role, mac, max_credit, created_us, ends_us, revoked_us) {ROWS} SELECT {ID}, 'n', 1,
		randomblob(32), 0, {AT}, {AT}, 0 FROM c`)
	add(to, `INSERT INTO request(id, at_us, node, account, api_key, route, model, status, code, cause, took_ms, flags, refused, limit_by, hold, had,
		held, needed, remaining, period, upstream, attempts, tries, alike) {ROWS} SELECT randomblob(16), {AT}, 1, {ACCOUNT}, {ACCOUNT} * 10, 'POST /x',
		'model-' || x % 2, 402, 'CODE_' || x % 2, '', 5, 0, x % 2, 'balance', 0, 1, 0, 2, 0, '', 'upstream-' || x % 2, 1, '[]', 0 FROM c`)
	return list
}

// addUsage books requests as the projector does.
func (s *fullStore) addUsage(to int) {
	models := []uint32{modelNo(s.f.ModelNumber("model-0")), modelNo(s.f.ModelNumber("model-1"))}
	s.seq = max(s.seq, s.f.journal.Flush())
	price := config.Price{Input: 100_000, Output: 400_000}
	b, first := store.NewBatch(), s.requests
	batch := max(1, min(fullBatch, (to-first)/(4*fullDays))) // several a day
	for s.requests < to {
		// As far through the time as through the requests.
		at := s.begin.UnixNano() + int64(float64(fullDays)*float64(24*time.Hour)*float64(s.requests-first)/float64(to-first))
		pages := journal.Pages{}
		b.Begin(s.seq)
		pages.Begin(s.seq)
		day := calendar.DayOf(at)
		for n := range min(batch, to-s.requests) {
			account := 1
			if n%2 == 1 {
				account = 1 + s.older + (s.requests/batch*fullBusy+n%fullBusy)%(s.accounts-s.older)
			}
			s.seq += 2
			r := &journal.Record{Kind: journal.Settle, Seq: s.seq, Hold: s.seq - 1, TimeNs: at + int64(n)*1000, Account: uint32(account),
				Key: uint32(account*fullKeys + int(day)%fullKeys), Model: models[n/2%2], Day: day, Status: 200, TookMs: 100,
				Lines: money.Text(&price, money.Usage{Prompt: 500, Completion: 50})}
			for i := range r.RequestID {
				r.RequestID[i] = byte(s.random.Uint32())
			}
			r.Amounts[money.InUSD] = r.Lines.Cost()
			b.Add(r)
			pages.Add(r)
			s.requests++
		}
		b.Sealed, b.NowUs, pages.Sealed = true, at/1000, true
		if err := s.f.store.Apply(b); err != nil {
			s.t.Fatal(err)
		}
		if err := s.f.store.AddPages(pages.List(), pages.First, pages.Last); err != nil {
			s.t.Fatal(err)
		}
		b.Applied()
	}
}

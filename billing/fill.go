package billing

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"farebox/billing/calendar"
	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/billing/store"
	"farebox/billing/window"
	"farebox/config"
)

// FillOptions describe the usage to make up.
type FillOptions struct {
	Entries int64 // about so many
	Keys    int
	Models  int
	Days    int // up to now, over which the requests are spread
	Seed    uint64
	Show    func(entries int64) // told of the progress
}

// Filled is the result of Fill.
type Filled struct {
	Account           string
	Secret            string `json:"-"` // of an ADMIN key of the account
	Requests, Entries int64
	Charged           Nano
	Took              time.Duration
}

// Limits of the made-up data.
const (
	fillKeysMost   = 500
	fillModelsMost = 1000
	fillDaysMost   = 3650
	// fillChunk is how many requests are booked in one transaction.
	fillChunk = 1 << 17
)

// Fill makes up an account with many requests of the past, for measuring how
// reports do. It books them as the projector does, in its pages, daily usage,
// balances and double entry, so that a recount adds up. Nothing else may use
// the ledger meanwhile; it is to be closed afterwards.
func (l *Ledger) Fill(ctx context.Context, o FillOptions) (*Filled, error) {
	switch {
	case o.Entries < 1:
		return nil, errors.New("cannot make up less than 1 entry")
	case o.Keys < 1 || o.Keys > fillKeysMost:
		return nil, fmt.Errorf("cannot make up %d keys: expected 1 to %d", o.Keys, fillKeysMost)
	case o.Models < 1 || o.Models > fillModelsMost:
		return nil, fmt.Errorf("cannot make up %d models: expected 1 to %d", o.Models, fillModelsMost)
	case o.Days < 1 || o.Days > fillDaysMost:
		return nil, fmt.Errorf("cannot spread requests over %d days: expected 1 to %d", o.Days, fillDaysMost)
	}
	if err := l.project.drain(); err != nil {
		return nil, err
	}
	f := &filler{l: l, o: &o, random: rand.New(rand.NewPCG(o.Seed, 1)), seq: l.journal.Flush()}
	if err := f.open(); err != nil {
		return nil, err
	}
	began := time.Now()
	err := f.run(ctx)
	f.done.Took = time.Since(began)
	return &f.done, err
}

type filler struct {
	l       *Ledger
	o       *FillOptions
	random  *rand.Rand
	seq     uint64
	account uint32
	keys    []uint32
	models  []uint32
	done    Filled
}

// open makes the account with its keys and more money than can be spent.
func (f *filler) open() error {
	l := f.l
	f.done.Account = fmt.Sprintf("rows-%d-%d", f.o.Entries, l.now()/int64(time.Millisecond))
	if _, err := Do(l, CreateAccount{Name: f.done.Account}); err != nil {
		return err
	}
	row, err := l.findAccount(f.done.Account)
	if err != nil {
		return err
	}
	f.account = row.no
	for i := range f.o.Keys {
		k := NewKey{Account: f.done.Account, Type: store.Inference, Description: fmt.Sprintf("made up %d", i+1),
			Period: store.Epoch}
		if i == 0 {
			k.Type = store.Admin
		}
		made, err := Do(l, CreateKey{k})
		if err != nil {
			return err
		}
		key, err := l.Lookup([]byte(made.Secret))
		if err != nil {
			return err
		}
		if f.keys = append(f.keys, uint32(key.No)); i == 0 {
			f.done.Secret = made.Secret
		}
	}
	for i := range f.o.Models {
		f.models = append(f.models, modelNo(l.ModelNumber(fmt.Sprintf("made-up-%d", i+1))))
	}
	return f.credit()
}

// fillRich is the credit of each currency, DIEM each day.
const fillRich = Nano(1_000_000_000_000_000)

func (f *filler) credit() error {
	now := f.l.now()
	today := calendar.DayOf(now)
	credits := []store.Credit{{Currency: USD}, {Currency: Bundled}}
	for day := today - int32(f.o.Days); day <= today; day++ {
		credits = append(credits, store.Credit{Currency: DIEM, Day: day})
	}
	for i := range credits {
		c := &credits[i]
		c.Account, c.Amount, c.NowUs, c.Memo = f.account, fillRich, now/1000, "made up"
		c.Ref = fmt.Sprintf("%s:%s:%d", f.done.Account, c.Currency, c.Day)
		if _, err := f.l.store.Credit(c); err != nil {
			return err
		}
	}
	return nil
}

// run books chunk after chunk, in the order of time.
func (f *filler) run(ctx context.Context) error {
	l, o := f.l, f.o
	end := l.now()
	span := int64(o.Days) * window.DayNs
	begin := end - span
	b, pages := store.NewBatch(), journal.Pages{}
	var s journal.Shares
	for f.done.Entries < o.Entries {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("stopped: %w", err)
		}
		b.Begin(f.seq)
		pages.Begin(f.seq)
		for n := 0; n < fillChunk && f.done.Entries < o.Entries; n++ {
			// As far through the time as through the entries.
			at := begin + int64(float64(span)*(float64(f.done.Entries)/float64(o.Entries)))
			r := f.request(at)
			b.Add(r)
			pages.Add(r)
			r.Spread(&s)
			f.done.Entries += int64(len(s.All()))
			f.done.Requests++
			f.done.Charged += r.Amounts.Total()
		}
		b.Sealed, b.NowUs, pages.Sealed = true, l.now()/1000, true
		if err := l.store.Apply(b); err != nil {
			return err
		}
		if err := l.store.AddPages(pages.List(), pages.First, pages.Last); err != nil {
			return err
		}
		b.Applied()
		if o.Show != nil {
			o.Show(f.done.Entries)
		}
	}
	return nil
}

// request makes up one settled request: mostly paid in USD, some in DIEM, some
// by two currencies; a third read from the cache.
func (f *filler) request(atNs int64) *journal.Record {
	x := f.random
	f.seq += 2 // a hold, and this
	model := x.IntN(len(f.models))
	u := money.Usage{Prompt: 200 + x.Int64N(4000), Completion: 20 + x.Int64N(1000)}
	if x.IntN(3) == 0 {
		u.Cached = x.Int64N(u.Prompt)
	}
	price := config.Price{Input: config.Pico(100_000 * (1 + model%40)), Output: config.Pico(400_000 * (1 + model%40))}
	r := &journal.Record{
		Kind: journal.Settle, Seq: f.seq, Hold: f.seq - 1, TimeNs: atNs, Account: f.account,
		Key:   f.keys[x.IntN(len(f.keys))],
		Model: f.models[model], Day: calendar.DayOf(atNs), Status: 200, TookMs: uint32(100 + x.IntN(20_000)),
		Lines: money.Text(&price, u),
	}
	for i := range 16 {
		r.RequestID[i] = byte(x.Uint32())
	}
	cost := r.Lines.Cost()
	switch n := x.IntN(20); {
	case n == 0:
		r.Amounts = money.Parts{money.InDIEM: cost / 2, money.InUSD: cost - cost/2}
	case n < 3:
		r.Amounts[money.InDIEM] = cost
	case n == 3:
		r.Amounts[money.InBundled] = cost
	default:
		r.Amounts[money.InUSD] = cost
	}
	return r
}

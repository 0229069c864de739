package billing

import (
	"bytes"
	"crypto/sha256"
	"strconv"
	"testing"
	"time"

	"farebox/billing/journal"
	"farebox/billing/replay"
)

// The cost of a key for a request: begun, kept and charged, and replayed.
func BenchmarkKeyed(b *testing.B) {
	f := openLedger(b, func(o *Options) { o.Clock, o.segmentSize = time.Now, journal.DefaultSize })
	f.account("a", 1_000_000*usd)
	k, _ := f.key("a")
	body := bytes.Repeat([]byte("x"), 300)
	claim := func(n int, write bool) *replay.Claim {
		return &replay.Claim{Account: k.Account.no, Key: strconv.AppendInt(nil, int64(n), 10),
			Fingerprint: sha256.Sum256(body), Patience: time.Minute, Wait: time.Minute, Write: write}
	}
	i := f.Idempotency()
	next := 0
	carry := func(b *testing.B, write bool) {
		for b.Loop() {
			next++
			lead, _, err := i.Begin(claim(next, write))
			if err != nil {
				b.Fatal(err)
			}
			a := f.ask(k, 1000)
			a.RequestID = lead.RequestID()
			var h Hold
			f.Admit(&h, a)
			if err := lead.Claim(); err != nil {
				b.Fatal(err)
			}
			h.SettleKept(Settlement{Cost: 20, Now: f.at()}, lead, &replay.Answer{Status: 200, Body: body})
		}
	}
	b.Run("read", func(b *testing.B) { carry(b, false) })
	b.Run("write", func(b *testing.B) { carry(b, true) })
	b.Run("replay", func(b *testing.B) {
		for b.Loop() {
			if _, a, err := i.Begin(claim(1, false)); err != nil || a == nil {
				b.Fatal(a, err)
			}
		}
	})
}

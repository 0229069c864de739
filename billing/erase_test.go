package billing

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"farebox/bench/servers"
	"farebox/billing/replay"
	"farebox/billing/store"
	"farebox/config"
	"farebox/config/fair"
)

// marked returns the files of a folder that contain a text.
func marked(t *testing.T, folder, text string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(text)) {
			files = append(files, filepath.Base(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// keepKeyed keeps answers under idempotency keys.
func (f *fixture) keepKeyed(account uint32, marker string) {
	f.t.Helper()
	for i, owner := range []fair.Owner{fair.Paid(uint64(account)), fair.Unpaid(netip.MustParseAddr("192.0.2.1"))} { // an account without credit has no share of its own
		lead, _, err := f.Idempotency().Begin(&replay.Claim{Account: account, Owner: owner, Key: fmt.Append(nil, "key-", i), Patience: time.Minute})
		if err == nil {
			err = lead.Claim()
		}
		if err != nil {
			f.t.Fatal(err)
		}
		if !lead.Keep(1, &replay.Answer{Status: 200, Body: []byte(marker)}) {
			f.t.Fatal("the answer is not kept")
		}
	}
}

// keepAnswers keeps answers under idempotency keys, one of a response, and an item.
func (f *fixture) keepAnswers(account uint32, marker string) {
	f.t.Helper()
	f.keepKeyed(account, marker)
	for _, kept := range []*replay.Values{f.Items(), f.Responses()} {
		if !kept.Put(account, fair.Paid(uint64(account)), []byte("name"), []byte(marker)) {
			f.t.Fatal("a text is not kept")
		}
	}
}

// "You said that I was forgotten, and I found my prompt in the file."
func TestAnErasedAccountLeavesNoTextBehind(t *testing.T) {
	const marker = "Zxq7WvMarker"
	for _, where := range []string{"files", "Redis"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			address := ""
			f := openLedger(t, func(o *Options) {
				o.Responses = config.Responses{Keep: time.Hour, ItemReferences: time.Hour}
				if where == "Redis" {
					address = servers.StartRedis(t).Addr
					o.Redis = config.Redis{Addresses: []string{address}, Timeout: time.Second}
				}
			})
			left := func() (found []string) {
				found = marked(t, f.dir, marker)
				if address != "" {
					found = append(found, markedInRedis(t, address, marker)...)
				}
				return found
			}
			f.account("other", usd)
			other, _ := f.key("other")
			f.keepAnswers(other.Account.no, "of another")
			f.account(marker, usd)
			k, _ := f.key(marker, func(n *NewKey) { n.Description = marker })
			act := &call{Act: local(), ctx: context.Background()}
			text := marker
			if _, err := perform(f.Ledger, act, ChangeAccount{Account: marker, Email: ptr(marker + "@example.com"), Company: &text, TaxID: &text,
				ExternalID: &text, Metadata: &map[string]string{"note": marker}}); err != nil {
				t.Fatal(err)
			}
			if _, _, err := f.Credit(marker, USD, usd, "wire", marker); err != nil {
				t.Fatal(err)
			}
			if _, err := perform(f.Ledger, &call{Act: local(), ctx: context.Background()},
				AddReview{NewReview{Slug: "x", Account: marker, Rating: 5, Locale: "en", Message: marker}}); err != nil {
				t.Fatal(err)
			}
			var h Hold
			if d := f.Admit(&h, f.ask(k, 10)); d.Code != Admitted {
				t.Fatal(d.Code)
			}
			if err := f.store.AddViolations([]store.Violation{{Account: k.Account.no, Model: marker}}); err != nil {
				t.Fatal(err)
			}
			f.settle(&h, 10)
			f.requests.keepUs.Store(time.Hour.Microseconds())
			for n := range 3 {
				noteAs(f.Ledger, k.Account.no, n, marker)
			}
			noteAs(f.Ledger, other.Account.no, 1, "OTHER")
			f.keepAnswers(k.Account.no, marker)
			if len(left()) < 2 {
				t.Fatalf("the test finds its marker in %v only", left())
			}

			id := k.Account.ID
			if _, err := perform(f.Ledger, &call{Act: local(), ctx: context.Background()}, CloseAccount{Account: id, WithBalance: true}); err != nil {
				t.Fatal(err)
			}
			for round := range 2 { // it can be repeated
				done, err := perform(f.Ledger, &call{Act: local(), ctx: context.Background()}, EraseAccount{Account: id})
				if err != nil {
					t.Fatal(err)
				}
				want := store.Erased{}
				if round == 0 {
					want = store.Erased{KeptAnswers: 4, Keys: 1, Reviews: 1, Memos: 1, Violations: 1, Requests: 3, Audit: done.Removed.Audit}
				}
				if round == 1 {
					want.Audit = done.Removed.Audit // that of the round before
				}
				if done.Removed != want {
					t.Errorf("round %d removes %+v, expected %+v", round, done.Removed, want)
				}
			}
			if found := left(); len(found) > 0 {
				t.Errorf("the marker is left in %v", found)
			}
			for _, kept := range []*replay.Values{f.Items(), f.Responses()} {
				if texts, err := kept.Find(k.Account.no, [][]byte{[]byte("name")}); err != nil || texts[0] != nil {
					t.Errorf("an erased text is found: %q (%v)", texts, err)
				}
				if texts, err := kept.Find(other.Account.no, [][]byte{[]byte("name")}); err != nil || string(texts[0]) != "of another" {
					t.Errorf("the text of another account is %q (%v)", texts, err)
				}
			}
			if n, err := f.store.RequestsByAccount(); err != nil || n[k.Account.no] != 0 || n[other.Account.no] != 1 {
				t.Errorf("details of requests by account: %v (%v)", n, err)
			}
			f.reopen()
			_, answer, err := f.Idempotency().Begin(&replay.Claim{Account: other.Account.no, Key: []byte("key-0")})
			if err != nil || answer == nil || string(answer.Body) != "of another" {
				t.Errorf("the answer of another account is %v (%v)", answer, err)
			}
			if found := left(); len(found) > 0 {
				t.Errorf("the marker is left in %v after a start", found)
			}
			f.recount()
		})
	}
}

func ptr[T any](v T) *T { return &v }

// markedInRedis returns the names whose texts contain a text.
func markedInRedis(t *testing.T, address, text string) (found []string) {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: address})
	defer func() { _ = c.Close() }()
	ctx := context.Background()
	names, err := c.Keys(ctx, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if value, err := c.Get(ctx, name).Result(); err == nil && strings.Contains(value, text) {
			found = append(found, name)
		}
	}
	return found
}

// A node with files of its own follows when an account is erased on another.
func TestAnErasedAccountLeavesNoTextOnOtherNodes(t *testing.T) {
	t.Parallel()
	const marker = "Zxq7WvMarker"
	shared := servers.Database(t)
	var nodes []*fixture
	for i := range 2 {
		nodes = append(nodes, openLedger(t, func(o *Options) { o.Shared, o.NodeName, o.Clock = shared, fmt.Sprint("node-", i), time.Now }))
	}
	nodes[0].account("a", usd)
	_, secret := nodes[0].key("a")
	k, err := nodes[1].Lookup([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	nodes[1].keepKeyed(k.Account.no, marker)
	if len(marked(t, nodes[1].dir, marker)) == 0 {
		t.Fatal("the test does not find its marker")
	}
	for _, name := range []string{"close", "erase"} {
		act := &call{Act: local(), ctx: context.Background()}
		if name == "close" {
			_, err = perform(nodes[0].Ledger, act, CloseAccount{Account: "a", WithBalance: true})
		} else {
			_, err = perform(nodes[0].Ledger, act, EraseAccount{Account: "a"})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the other node has nothing of it", time.Minute, func() bool { return len(marked(t, nodes[1].dir, marker)) == 0 })
}

// slowEraser is a store whose erasing of requests lasts as long as a function.
type slowEraser struct {
	store.Store
	during func()
}

func (s *slowEraser) EraseRequests(account uint32) (int64, error) {
	s.during()
	return s.Store.EraseRequests(account)
}

// "A key had leaked, and it was valid for as long as a large account was being erased."
func TestErasingAnAccountDelaysNoRevocation(t *testing.T) {
	f := openLedger(t)
	f.account("gone", usd)
	f.account("stays", usd)
	leaked, _ := f.key("stays")
	if _, err := Do(f.Ledger, CloseAccount{Account: "gone", WithBalance: true}); err != nil {
		t.Fatal(err)
	}
	f.Ledger.store = &slowEraser{f.Ledger.store, func() {
		revoked := make(chan error, 1)
		go func() {
			_, err := Do(f.Ledger, RevokeKey{ID: leaked.ID})
			revoked <- err
		}()
		select {
		case err := <-revoked:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(5 * time.Second):
			t.Error("the key is valid until the account is erased")
		}
	}}
	if _, err := Do(f.Ledger, EraseAccount{Account: "gone"}); err != nil {
		t.Error(err)
	}
	if f.Live(leaked) {
		t.Error("the key is valid after its revocation")
	}
}

package account

import (
	"encoding/json"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"farebox/billing"
	"farebox/billing/money"
	"farebox/routes"
)

// Decimal strings have four places and are rounded once, from the integer.
func TestFixedDecimals(t *testing.T) {
	for n, want := range map[billing.Nano]string{
		0: "0.0000", 1: "0.0000", 49_999: "0.0000", 50_000: "0.0001", 149_999: "0.0001", 1_000_000_000: "1.0000",
		12_804_000: "0.0128", 1_234_567_890_123: "1234.5679",
		-50_000: "-0.0001", -49_999: "0.0000", 999_999_950_000: "1000.0000", math.MaxInt64: "9223372036.8548",
		math.MinInt64: "-9223372036.8548",
	} {
		if got := string(appendFixed(nil, n, 4)); got != want {
			t.Errorf("%d nano is %s, not %s", n, got, want)
		}
	}
	if got := string(appendScaled(nil, 500_000_000, 8, 4)); got != "5.0000" {
		t.Errorf("0.5 DIEM are %s VCU", got)
	}
}

// Keys with unusual values that a store can hold are still JSON.
func TestKeyObjectIsJSON(t *testing.T) {
	most := billing.Nano(math.MaxInt64)
	for _, k := range []billing.KeyInfo{
		{}, {Description: "\"\\\x00\xff", LimitUSD: &most, TextUSD: "9.999999999e9", LimitDIEM: &most,
			TextDIEM: "9999999999"},
		{LimitUSD: new(billing.Nano), CreatedAt: time.Unix(0, 1), ExpiresAt: time.Unix(1e10, 0)},
	} {
		use := &billing.KeyRecord{KeyInfo: k, Week: billing.KeyUsage{USD: most, DIEM: most},
			Current: &billing.KeyUsage{}}
		for _, b := range [][]byte{appendKey(nil, &k, use), appendKey(nil, &k, nil), appendNewKey(nil, &k, "s")} {
			if !json.Valid(b) {
				t.Errorf("%s", b)
			}
		}
	}
}

// FuzzKeyBody sends any body: it is refused with a reason, or means the same to us as to
// any JSON reader.
func FuzzKeyBody(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"id":"x","description":"d","expires_at":null,"consumption_limit":{"usd":1.5,"diem":null,"vcu":2e1},"limit_period":"MONTH","modelPrivacy":"ALL"}`,
		`{"apiKeyType":"ADMIN","expiresAt":"2031-01-01T00:00:00.000Z","consumptionLimit":null}`,
		`{"description":"\ud83d\ude00\u0000"}`, `{"expiresAt":""}`,
		`{"consumptionLimit":{"usd":9999999999}}`, `{"a":{"b":[1,2,{}]}}`, `{"description":"x","description":"y"}`,
		`{"limit_period":"MONTH","limitPeriod":"EPOCH"}`, `[`, `{"token":"`,
		`{"address":"0x00","signature":"0x","token":"a.b.c","apiKeyType":"INFERENCE"}`,
	} {
		for op := range 4 {
			f.Add([]byte(s), uint8(op))
		}
	}
	now := time.Unix(1_795_000_000, 0)
	f.Fuzz(func(t *testing.T, body []byte, which uint8) {
		book := []*routes.Rulebook{keyCreation, keyUpdate, keyDeletion, web3Creation}[which%4]
		c := &routes.Call{Began: now}
		if err := c.Doc.Skim(body, keyBook.Root); err != nil {
			return
		}
		v := validator{routes.Validator{Body: body, Doc: &c.Doc, Book: book}}
		b := &keyBody{}
		v.CheckAll()
		if v.checkTakes(); len(v.Issues) == 0 {
			b.read(&v, now)
		}
		if len(v.Issues) > 0 {
			if raw := routes.AppendError(nil, routes.Invalid(v.Issues...), routes.ShapeString, nil); !json.Valid(raw) {
				t.Fatalf("%q is refused with %s", body, raw)
			}
			return
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(body, &members); err != nil {
			t.Fatalf("%q is taken, but %v", body, err)
		}
		taken := map[string]bool{}
		for _, id := range book.Takes {
			taken[keyNames[id]] = true
		}
		for name := range members {
			if !taken[name] {
				t.Fatalf("%q: the member %q is taken", body, name)
			}
		}
		var d *string
		if raw, ok := members["description"]; ok && json.Unmarshal(raw, &d) == nil && d != nil &&
			(b.change.Description == nil || *b.change.Description != *d) {
			t.Fatalf("%q: the description is %v, not %q", body, b.change.Description, *d)
		}
		if b.change.ExpiresAt != nil && !b.change.ExpiresAt.IsZero() && !b.change.ExpiresAt.After(now) {
			t.Fatalf("%q expires %s", body, b.change.ExpiresAt)
		}
		for _, limit := range []*money.Limit{b.change.USD, b.change.DIEM} {
			if limit == nil || !limit.Set {
				continue
			}
			n, ok := new(big.Rat).SetString(string(limit.AppendJSON(nil)))
			if !ok || n.Sign() < 0 || n.Cmp(big.NewRat(9_999_999_999, 1)) > 0 || limit.Amount < 0 {
				t.Fatalf("%q has the limit %+v", body, limit)
			}
		}
	})
}

// The Shape knows the members of every operation, in both spellings.
func TestSpellingsArePairs(t *testing.T) {
	for _, book := range []*routes.Rulebook{keyCreation, keyUpdate, keyDeletion, web3Creation} {
		for _, id := range book.Takes {
			if other := snake(id); other != id {
				plain := strings.ReplaceAll(keyNames[other], "_", "")
				if !strings.EqualFold(plain, keyNames[id]) {
					t.Errorf("%s and %s are not a pair", keyNames[id], keyNames[other])
				}
				found := false
				for _, x := range book.Takes {
					found = found || x == other
				}
				if !found {
					t.Errorf("%s is taken, %s is not", keyNames[id], keyNames[other])
				}
			}
		}
	}
}

package chain

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mr-tron/base58"

	"farebox/config/onchain"
	"farebox/providers/rpc"
	"farebox/providers/x402"
	"farebox/providers/x402/payer"
	"farebox/providers/x402/svm"
)

const slot = 300_000_000

func solanaWallet(fill byte) *payer.Solana {
	return payer.NewSolana([32]byte(bytes.Repeat([]byte{fill}, 32)))
}

// transaction is a payment with a memo, as it is submitted, and as it lands with the fee
// payer's signature and its name.
func transaction(t testing.TB, memo string) (o *x402.Order, landed, name string) {
	t.Helper()
	d := svm.Draft{FeePayer: solanaWallet(9).Address(), Payer: solanaWallet(7).Address(), PayTo: solanaWallet(8).Address(),
		Mint: parsed(t, "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"), Units: 7_000_000, Blockhash: [32]byte{1}, Memo: memo}
	tx := d.Transaction()
	p := solanaWallet(7).Pay(tx)
	o = &x402.Order{Network: "solana:x", Units: 7_000_000, Since: slot, Solana: &x402.SolanaOrder{
		Transaction: p.Transaction, Source: "source", FeePayer: d.FeePayer.String()}}
	tx.Signatures[0] = solanaWallet(9).Sign(tx.Message)
	return o, base64.StdEncoding.EncodeToString(tx.AppendWire(nil)), base58.Encode(tx.Signatures[0][:])
}

func got(wire, failed string) string {
	return fmt.Sprintf(`{"slot":%d,"transaction":[%q,"base64"],"meta":{"err":%s}}`, slot+5, wire, failed)
}

func status(level, failed string) string {
	return fmt.Sprintf(`{"context":{"slot":1},"value":[{"slot":%d,"confirmationStatus":%q,"err":%s}]}`, slot+5, level,
		failed)
}

func listing(entries ...string) string {
	for i, e := range entries {
		entries[i] = fmt.Sprintf(`{"signature":%q,"slot":%d}`, e, slot+5)
	}
	return "[" + strings.Join(entries, ",") + "]"
}

func hashValid(valid bool, at int64) string {
	return fmt.Sprintf(`{"context":{"slot":%d},"value":%v}`, at, valid)
}

// Only the transaction that was signed, byte for byte, is the payment.
func TestOnlyTheSignedTransactionPays(t *testing.T) {
	o, wire, name := transaction(t, "mine")
	_, other, otherName := transaction(t, "another")
	failure := `{"InstructionError":[2,{"Custom":1}]}`
	for what, c := range map[string]struct {
		listed, transaction, status string
		want                        onchain.State
		settled, final, ok          bool
	}{
		"confirmed": {listing(name), got(wire, "null"), status("confirmed", "null"), onchain.Paid, true, false, true},
		"finalized": {listing(name), got(wire, "null"), status("finalized", "null"), onchain.Paid, true, true, true},
		"processed": {listing(name), got(wire, "null"), status("processed", "null"), onchain.Paid, false, false, true},
		"failed":    {listing(name), got(wire, failure), status("finalized", failure), onchain.Spent, true, true, true},
		"failed just now": {listing(name), got(wire, failure), status("confirmed", failure), onchain.Open, false, false,
			true},
		"another one": {listing(otherName), got(other, "null"), status("finalized", "null"), onchain.Open, false, false,
			true},
		"another one in its place": {listing(name), got(other, "null"), status("finalized", "null"), onchain.Open, false,
			false,
			true},
		"under another name": {listing(otherName), got(wire, "null"), status("finalized", "null"), 0, false, false,
			false},
		"nothing":          {listing(), "null", "null", onchain.Open, false, false, true},
		"listed and gone":  {listing(name), "null", "null", onchain.Open, false, false, true},
		"no status":        {listing(name), got(wire, "null"), `{"value":[null]}`, 0, false, false, false},
		"two statuses":     {listing(name), got(wire, "null"), `{"value":[null,null]}`, 0, false, false, false},
		"failed, says one": {listing(name), got(wire, "null"), status("finalized", failure), 0, false, false, false},
		"no word of failure": {listing(name), strings.Replace(got(wire, "null"), `"err":null`, `"x":1`, 1),
			status("finalized", "null"), 0, false, false, false},
		"no meta": {listing(name), strings.Replace(got(wire, "null"), `"meta"`, `"m"`, 1), status("finalized",
			"null"), 0, false, false, false},
		"another encoding": {listing(name), strings.Replace(got(wire, "null"), `"base64"`, `"base58"`, 1),
			status("finalized", "null"), 0, false, false, false},
		"another slot": {listing(name), strings.Replace(got(wire, "null"), "5", "6", 1), status("finalized",
			"null"), 0, false, false, false},
		"noise":               {listing(name), got("!", "null"), status("finalized", "null"), 0, false, false, false},
		"a name that is none": {listing("0OIl"), got(wire, "null"), status("finalized", "null"), 0, false, false, false},
		"long ago": {fmt.Sprintf(`[{"signature":%q,"slot":%d}]`, name, slot-5000), got(wire, "null"),
			status("finalized", "null"), onchain.Open, false, false, true},
		"more than can be asked": {listing(strings.Split(strings.Repeat(otherName+" ", candidates+1),
			" ")[:candidates+1]...), got(other, "null"), "null", 0, false, false, false},
		"a full page": {listing(strings.Split(strings.Repeat(otherName+" ", listed), " ")[:listed]...), "null",
			"null", 0, false, false, false},
	} {
		s := script{"getSignaturesForAddress": says(c.listed), "getTransaction": says(c.transaction),
			"getSignatureStatuses": says(c.status), "isBlockhashValid": says(hashValid(true, slot))}
		f, err := (&Chain{}).findSolana(context.Background(), s.node(), o, "")
		if (err == nil) != c.ok || f.is != c.want || f.settled != c.settled || f.final != c.final {
			t.Errorf("%s: %+v %v", what, f, err)
		}
		if f.is == onchain.Paid && f.transaction != name {
			t.Errorf("%s: %+v", what, f)
		}
		// With a given name no search is needed; and the name is no more than a hint.
		s["getSignaturesForAddress"] = says(listing())
		if f, err = (&Chain{}).findSolana(context.Background(), s.node(), o, name); err == nil && f.is == onchain.Paid &&
			c.want != onchain.Paid && !strings.Contains(what, "name") && what != "long ago" {
			t.Errorf("%s, with a hint: %+v", what, f)
		}
	}
}

// A payment is over once its blockhash is too old for the final slot, and it did not come
// in the meantime.
func TestBlockhashEndsAPayment(t *testing.T) {
	o, wire, name := transaction(t, "mine")
	looks := 0
	find := func(valid bool, at int64, second string) (paymentState, error) {
		looks = 0
		s := script{"isBlockhashValid": says(hashValid(valid, at)), "getTransaction": says(got(wire, "null")),
			"getSignatureStatuses": says(status("confirmed", "null")),
			"getSignaturesForAddress": func([]json.RawMessage) (string, error) {
				if looks++; looks == 2 {
					return second, nil
				}
				return listing(), nil
			}}
		return (&Chain{}).findSolana(context.Background(), s.node(), o, "")
	}
	for name, c := range map[string]struct {
		valid  bool
		at     int64
		second string
		want   onchain.State
	}{
		"still valid":             {true, slot + 1000, listing(), onchain.Open},
		"the node is behind":      {false, slot + known - 1, listing(), onchain.Open},
		"too old":                 {false, slot + known, listing(), onchain.Over},
		"came at the last moment": {false, slot + 1000, listing(name), onchain.Paid},
	} {
		if f, err := find(c.valid, c.at, c.second); err != nil || f.is != c.want {
			t.Errorf("%s: %+v %v", name, f, err)
		}
	}
	for _, bad := range []string{`null`, `{"value":false}`, `{"context":{"slot":1}}`, `{"context":{},"value":null}`,
		`false`} {
		s := script{"isBlockhashValid": says(bad), "getSignaturesForAddress": says(listing())}
		if f, err := (&Chain{}).findSolana(context.Background(), s.node(), o, ""); err == nil {
			t.Errorf("%s: %+v", bad, f)
		}
	}
}

// Before a payment is taken, the chain says whether it is new, and the money there.
func TestLookSeesTransactionAndMoney(t *testing.T) {
	o, wire, name := transaction(t, "mine")
	for what, c := range map[string]struct {
		listed, balance string
		err             error
		valid           bool
		want            StateBefore
		ok              bool
	}{
		"good":     {listing(), "7000000", nil, true, StateBefore{Covered: true, Since: slot}, true},
		"too poor": {listing(), "6999999", nil, true, StateBefore{Since: slot}, true},
		"no account": {listing(), "", &rpc.CallError{Code: badParams, Message: "could not find account"}, true,
			StateBefore{Since: slot}, true},
		"too old":      {listing(), "7000000", nil, false, StateBefore{Covered: true, Expired: true, Since: slot}, true},
		"made before":  {listing(name), "7000000", nil, true, StateBefore{Used: true, Since: slot + 5}, true},
		"busy node":    {listing(), "", &rpc.CallError{Code: -32005, Message: "busy"}, true, StateBefore{}, false},
		"odd balance":  {listing(), "-1", nil, true, StateBefore{}, false},
		"vast balance": {listing(), "18446744073709551616", nil, true, StateBefore{}, false},
		"no list":      {`{}`, "7000000", nil, true, StateBefore{}, false},
	} {
		s := script{"getSlot": says(fmt.Sprint(slot)), "isBlockhashValid": says(hashValid(c.valid, slot)),
			"getSignaturesForAddress": says(c.listed), "getTransaction": says(got(wire, "null")),
			"getSignatureStatuses": says(status("confirmed", "null")),
			"getTokenAccountBalance": func([]json.RawMessage) (string, error) {
				return fmt.Sprintf(`{"context":{"slot":1},"value":{"amount":%q,"decimals":6}}`, c.balance), c.err
			}}
		if got, err := (&Chain{}).lookSolana(context.Background(), s.node(), o); (err == nil) != c.ok || c.ok &&
			got != c.want {
			t.Errorf("%s: %+v %v", what, got, err)
		}
	}
	c := &Chain{reference: "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"}
	for hash, want := range map[string]bool{`"5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"`: true,
		`"EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG"`: false, `null`: false, `""`: false} {
		if err := c.checkSolana(context.Background(), script{"getGenesisHash": says(hash)}.node()); (err == nil) != want {
			t.Errorf("a node of %s: %v", hash, err)
		}
	}
}

// Whatever a node answers, nothing panics, and only the signed transfer counts as paid.
func FuzzSolanaNode(f *testing.F) {
	o, wire, name := transaction(f, "mine")
	f.Add(listing(name), got(wire, "null"), status("finalized", "null"), hashValid(true, slot))
	f.Add(listing(), `null`, `{}`, hashValid(false, slot+1000))
	f.Add(`[{}]`, `{"transaction":[]}`, `{"value":[]}`, `{"context":null,"value":null}`)
	f.Fuzz(func(t *testing.T, listed, transaction, statuses, valid string) {
		s := script{"getSignaturesForAddress": says(listed), "getTransaction": says(transaction),
			"getSignatureStatuses": says(statuses), "isBlockhashValid": says(valid), "getSlot": says("300000000"),
			"getTokenAccountBalance": says(valid)}
		for _, hint := range []string{"", name} {
			found, err := (&Chain{}).findSolana(context.Background(), s.node(), o, hint)
			if err == nil && found.is == onchain.Paid && found.transaction != name {
				t.Fatalf("paid by %q", transaction)
			}
		}
		_, _ = (&Chain{}).lookSolana(context.Background(), s.node(), o)
	})
}

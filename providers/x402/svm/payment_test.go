package svm

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"farebox/providers/wallet"
)

const usdc = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"

// made gives transactions that @x402/svm 2.27.0 made for the wallets below, of both
// token programs.
func made(t testing.TB) (list [][]byte) {
	t.Helper()
	for _, name := range []string{"token", "token2022"} {
		text, err := os.ReadFile("testdata/" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		wire, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, wire)
	}
	return list
}

func address(t testing.TB, s string) wallet.Address {
	t.Helper()
	a, err := wallet.ParseAddress(s)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func key(fill byte) ed25519.PrivateKey { return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{fill}, 32)) }

func owner(fill byte) wallet.Address {
	return wallet.SolanaAddress([32]byte(key(fill).Public().(ed25519.PublicKey)))
}

// The wallets of made: payer, receiver, and payer of the fee.
var payer, payTo, sponsor = owner(7), owner(8), owner(9)

func pays(t testing.TB, wire []byte) (*Payment, error) {
	t.Helper()
	tx, err := Parse(wire)
	if err != nil {
		return nil, err
	}
	return tx.Payment(address(t, usdc), payTo)
}

// Transactions of the npm package are accepted, with their payment; written again they
// are the same to the byte.
func TestTransactionsOfThePackageAreTaken(t *testing.T) {
	for i, wire := range made(t) {
		p, err := pays(t, wire)
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		program := []wallet.Address{wallet.SolanaAddress(token), wallet.SolanaAddress(token2022)}[i]
		if p.Units != 7_000_000 || p.Payer != payer || p.FeePayer != sponsor || p.TokenProgram != program {
			t.Errorf("%d pays %+v", i, p)
		}
		tx, err := Parse(wire)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(tx.AppendMessage(nil), tx.Message) || !bytes.Equal(tx.AppendWire(nil), wire) {
			t.Errorf("%d is written differently than it was read", i)
		}
	}
}

func draft(t testing.TB) *Transaction {
	d := Draft{FeePayer: sponsor, Payer: payer, PayTo: payTo, Mint: address(t, usdc), Units: 5_000_000,
		Blockhash: [32]byte{1}, Memo: "m"}
	return d.Transaction()
}

// sign writes a transaction's fields down and signs them with wallet 7.
func sign(tx *Transaction) []byte {
	tx.Message = tx.AppendMessage(nil)
	tx.Signatures[1] = [64]byte(ed25519.Sign(key(7), tx.Message))
	return tx.AppendWire(nil)
}

func addKey(tx *Transaction, key [32]byte) int {
	tx.Keys = append(tx.Keys, key)
	tx.ReadonlyOthers++
	return len(tx.Keys) - 1
}

// Every rule of a payment refuses who breaks it, however well it is signed.
func TestEveryRuleRefuses(t *testing.T) {
	if _, err := pays(t, sign(draft(t))); err != nil {
		t.Fatalf("a good one is refused: %v", err)
	}
	memoOf := func(n int) Instruction { return Instruction{Program: 6, Data: bytes.Repeat([]byte{'m'}, n)} }
	for name, c := range map[string]struct {
		change func(tx *Transaction)
		want   error
		words  string
	}{
		"two instructions": {func(tx *Transaction) { tx.Instructions = tx.Instructions[:2] }, ErrRules, "3 to 7"},
		"eight instructions": {func(tx *Transaction) {
			tx.Instructions = append(tx.Instructions, memoOf(1), memoOf(2), memoOf(3), memoOf(4))
		}, ErrRules, "3 to 7"},
		"limit and price swapped": {func(tx *Transaction) {
			tx.Instructions[0], tx.Instructions[1] = tx.Instructions[1], tx.Instructions[0]
		}, ErrRules, "compute limit"},
		"limit of another program": {func(tx *Transaction) { tx.Instructions[0].Program = 6 }, ErrRules, "compute limit"},
		"long limit": {func(tx *Transaction) { tx.Instructions[0].Data = append(tx.Instructions[0].Data, 0) },
			ErrRules, "compute limit"},
		"limit with an account": {func(tx *Transaction) { tx.Instructions[0].Accounts = []int{1} }, ErrRules,
			"compute limit"},
		"empty limit":              {func(tx *Transaction) { tx.Instructions[0].Data = nil }, ErrRules, "compute limit"},
		"price of another program": {func(tx *Transaction) { tx.Instructions[1].Program = 6 }, ErrRules, "compute price"},
		"heap in place of price":   {func(tx *Transaction) { tx.Instructions[1].Data[0] = 1 }, ErrRules, "compute price"},
		"greedy price": {func(tx *Transaction) {
			binary.LittleEndian.PutUint64(tx.Instructions[1].Data[1:],
				maxPrice+1)
		}, ErrRules, "5000000"},
		"plain transfer": {func(tx *Transaction) { tx.Instructions[2].Data[0] = 3 }, ErrRules, "TransferChecked"},
		"short transfer": {func(tx *Transaction) { tx.Instructions[2].Data = tx.Instructions[2].Data[:9] },
			ErrRules, "TransferChecked"},
		"long transfer": {func(tx *Transaction) { tx.Instructions[2].Data = append(tx.Instructions[2].Data, 0) },
			ErrRules, "TransferChecked"},
		"multisig": {func(tx *Transaction) { tx.Instructions[2].Accounts = []int{2, 7, 3, 1, 1} }, ErrRules,
			"one authority"},
		"transfer by memo":     {func(tx *Transaction) { tx.Instructions[2].Program = 6 }, ErrRules, "third instruction"},
		"another mint":         {func(tx *Transaction) { tx.Keys[7][0]++ }, ErrToken, ""},
		"nine decimals":        {func(tx *Transaction) { tx.Instructions[2].Data[9] = 9 }, ErrToken, "6 decimals"},
		"to the wallet itself": {func(tx *Transaction) { tx.Keys[3] = payTo.Key() }, ErrRecipient, ""},
		"to another receiver":  {func(tx *Transaction) { tx.Keys[3][0]++ }, ErrRecipient, ""},
		"to the other program's account": {func(tx *Transaction) {
			tx.Keys[3] = Associated(payTo, wallet.SolanaAddress(token2022), wallet.SolanaAddress(tx.Keys[7])).Key()
		}, ErrRecipient, ""},
		"from another's account": {func(tx *Transaction) { tx.Keys[2][0]++ }, ErrRules, "associated token account"},
		"to where it comes from": {func(tx *Transaction) { tx.Instructions[2].Accounts[2] = 2 }, ErrRecipient, ""},
		"authority is not a signer": {func(tx *Transaction) { tx.Instructions[2].Accounts[3] = 6 }, ErrRules,
			"second signer"},
		"fee payer owns the money": {func(tx *Transaction) { tx.Instructions[2].Accounts[3] = 0 }, ErrFeePayer, ""},
		"fee payer in a memo":      {func(tx *Transaction) { tx.Instructions[3].Accounts = []int{0} }, ErrFeePayer, ""},
		"a system transfer behind": {func(tx *Transaction) { tx.Instructions[3].Program = addKey(tx, [32]byte{}) },
			ErrRules, "memos"},
		"a second transfer behind": {func(tx *Transaction) { tx.Instructions[3] = tx.Instructions[2] }, ErrRules,
			"memos"},
		"a compute budget behind": {func(tx *Transaction) { tx.Instructions[3] = tx.Instructions[1] }, ErrRules,
			"memos"},
		"three signers": {func(tx *Transaction) {
			tx.Signers, tx.Signatures = 3, make([][64]byte, 3)
		}, ErrRules, "two signers"},
		"one signer": {func(tx *Transaction) {
			tx.Signers, tx.ReadonlySigners, tx.Signatures = 1, 0, append(make([][64]byte, 0, 2), [64]byte{})
		}, ErrRules, "two signers"},
		"source cannot be written": {func(tx *Transaction) { tx.ReadonlyOthers = 6 }, ErrRules, "writable"},
		"fee payer has signed":     {func(tx *Transaction) { tx.Signatures[0][0] = 1 }, ErrSignature, "fee payer"},
	} {
		tx := draft(t)
		for i := range tx.Instructions {
			tx.Instructions[i].Data = bytes.Clone(tx.Instructions[i].Data)
		}
		c.change(tx)
		var wire []byte
		if len(tx.Signatures) == 1 {
			tx.Message = tx.AppendMessage(nil)
			wire = tx.AppendWire(nil)
		} else {
			wire = sign(tx)
		}
		if _, err := pays(t, wire); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", name, err)
		}
	}
	wire := sign(draft(t))
	wire[1+64] ^= 1 // of the payer's signature
	if _, err := pays(t, wire); !errors.Is(err, ErrSignature) {
		t.Errorf("a signature with another bit: %v", err)
	}
	// The point of order 4 verifies any message under some signatures; it belongs to no wallet.
	tx := draft(t)
	tx.Keys[1] = [32]byte{}
	tx.Keys[2] = Associated(wallet.SolanaAddress([32]byte{}), wallet.SolanaAddress(token), address(t, usdc)).Key()
	tx.Message = tx.AppendMessage(nil)
	tx.Signatures[1] = [64]byte{}
	if _, err := pays(t, tx.AppendWire(nil)); !errors.Is(err, ErrSignature) {
		t.Errorf("a key of small order: %v", err)
	}
	// Wallets add assertions and further memos.
	tx = draft(t)
	guard := addKey(tx, lighthouse)
	tx.Instructions = append(tx.Instructions, Instruction{Program: guard, Accounts: []int{2, 1}, Data: []byte{1}},
		memoOf(9),
		memoOf(200))
	if _, err := pays(t, sign(tx)); err != nil {
		t.Errorf("assertions and memos: %v", err)
	}
}

// The wire form has one spelling, and nothing is read beyond its end.
func TestWireFormHasOneSpelling(t *testing.T) {
	good := sign(draft(t))
	for cut := range good {
		if _, err := Parse(good[:cut]); err == nil {
			t.Fatalf("the first %d bytes of %d are taken", cut, len(good))
		}
	}
	message := 1 + 2*64
	insert := func(at int, b ...byte) []byte { return slices.Insert(bytes.Clone(good), at, b...) }
	set := func(at int, c byte) []byte { b := bytes.Clone(good); b[at] = c; return b }
	for name, c := range map[string]struct {
		wire  []byte
		words string
	}{
		"a byte too many":      {append(bytes.Clone(good), 0), "bytes follow"},
		"a lookup table":       {set(len(good)-1, 1), "lookup tables"},
		"version 1":            {set(message, 0x81), "version"},
		"long count":           {slices.Replace(bytes.Clone(good), 0, 1, 0x82, 0x00), "shortest form"},
		"longer count":         {slices.Replace(bytes.Clone(good), 0, 1, 0x82, 0x80, 0x00), "shortest form"},
		"endless count":        {slices.Replace(bytes.Clone(good), 0, 1, 0xff, 0xff, 0xff), "out of range"},
		"vast count":           {slices.Replace(bytes.Clone(good), 0, 1, 0xff, 0xff, 0x03), "out of range"},
		"three signatures":     {slices.Replace(insert(1, make([]byte, 64)...), 0, 1, 3), "number of signatures"},
		"no signers":           {set(message+1, 0), "header"},
		"signers beyond keys":  {set(message+1, 9), "header"},
		"read-only fee payer":  {set(message+2, 2), "header"},
		"all others read-only": {set(message+3, 7), "header"},
		"program not there":    {set(message+5+8*32+32+1, 8), "not there"},
		"program is fee payer": {set(message+5+8*32+32+1, 0), "not there"},
		"nothing":              {nil, "cut short"},
		"longer than a packet": {make([]byte, MaxTransaction+1), "1232"},
		"an account not there": {func() []byte { tx := draft(t); tx.Instructions[2].Accounts[0] = 8; return sign(tx) }(),
			"not there"},
		"an account stands twice": {func() []byte { tx := draft(t); tx.Keys[6] = tx.Keys[5]; return sign(tx) }(), "twice"},
	} {
		if _, err := Parse(c.wire); !errors.Is(err, ErrTransaction) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A legacy message is the same without its first and its last byte.
	tx := draft(t)
	tx.Message = tx.AppendMessage(nil)
	tx.Message = tx.Message[1 : len(tx.Message)-1]
	tx.Signatures[1] = [64]byte(ed25519.Sign(key(7), tx.Message))
	if p, err := pays(t, tx.AppendWire(nil)); err != nil || p.Units != 5_000_000 {
		t.Errorf("a legacy transaction: %+v %v", p, err)
	}
}

// An accepted transaction pays exactly its stated amount, and no bit of it can change.
func FuzzTransaction(f *testing.F) {
	for _, wire := range made(f) {
		f.Add(wire)
	}
	f.Add(sign(draft(f)))
	f.Add([]byte{0x82, 0x00})
	f.Fuzz(func(t *testing.T, wire []byte) {
		tx, err := Parse(wire)
		if err != nil {
			return
		}
		if got := tx.AppendWire(nil); !bytes.Equal(got, wire) {
			t.Fatalf("read %x and wrote %x", wire, got)
		}
		p, err := tx.Payment(address(t, usdc), payTo)
		if err == nil && (p.Payer == p.FeePayer || !ed25519.Verify(tx.Keys[1][:], tx.Message, tx.Signatures[1][:])) {
			t.Fatalf("taken: %+v", p)
		}
	})
}

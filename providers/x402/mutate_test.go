package x402

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/config"
	"farebox/providers/wallet"
	"farebox/providers/x402/evm"
	"farebox/providers/x402/svm"
)

// mutator changes good payments at random. One seed gives one list.
type mutator struct {
	*rand.Rand
	separator evm.Word
	evm       []signedEVM
	solana    []signedSolana
}

type signedEVM struct {
	text   string // JSON
	digest evm.Word
}

type signedSolana struct{ wire, message []byte }

func newMutator(t testing.TB, seed uint64) *mutator {
	t.Helper()
	m := &mutator{Rand: rand.New(rand.NewPCG(seed, 402)), separator: testTerms(t, nil).Network(base).separator}
	for i := range 8 {
		var digest evm.Word
		p := signed(t, func(a *evm.Authorization) {
			a.Nonce[0], a.Value = byte(i), evm.NumberOf(5_000_000+int64(i)*1_111_111)
			digest = a.Digest(m.separator)
		})
		m.evm = append(m.evm, signedEVM{v2(p), digest})
		wire, ok := decode(solanaPayment(t, func(d *svm.Draft) {
			d.Units, d.Token2022, d.Memo = 5_000_000+uint64(i), i%2 == 1, strings.Repeat("m", i*5)
		}).Transaction)
		if !ok {
			t.Fatal("a payment is not base64")
		}
		tx, err := svm.Parse(wire)
		if err != nil {
			t.Fatal(err)
		}
		m.solana = append(m.solana, signedSolana{wire, tx.Message})
	}
	return m
}

// bytes changes some bytes: bits, insertions, deletions, repetitions.
func (m *mutator) bytes(b []byte) []byte {
	b = append([]byte(nil), b...)
	for range 1 + m.IntN(3) {
		if len(b) == 0 {
			return b
		}
		at := m.IntN(len(b))
		switch m.IntN(6) {
		case 0:
			b[at] ^= 1 << m.IntN(8)
		case 1:
			b[at] = byte(m.IntN(256))
		case 2:
			b = append(b[:at], append([]byte{byte(m.IntN(256))}, b[at:]...)...)
		case 3:
			b = append(b[:at], b[at+1:]...)
		case 4:
			end := min(len(b), at+m.IntN(40))
			b = append(b[:end:end], append(append([]byte(nil), b[at:end]...), b[end:]...)...)
		default:
			b = b[:at]
		}
	}
	return b
}

// digits and words that are put in place of others.
var (
	digits = []string{"0", "1", "7", "9", "a", "f", "A", "F", "-", "+", ".", "e", "x", " ", "\\u0030", "٣"}
	words  = []string{`"value"`, `"to"`, `"from"`, `"nonce"`, `"signature"`, `"payload"`, `"accepted"`, `"scheme"`,
		`"network"`, `"authorization"`, `"validAfter"`, `"validBefore"`, `"x402Version"`, `"transaction"`}
	scraps = []string{`"7000000"`, `"0"`, `0`, `null`, `{}`, `[]`, `""`, `"exact"`, `"base"`, `"solana"`, `2`, `1`, `true`,
		`"0x"`, `"` + receiver + `"`, `"99999999999999999999"`}
)

// text changes JSON where it hurts.
func (m *mutator) text(text string) string {
	pick := func(list []string) string { return list[m.IntN(len(list))] }
	for range 1 + m.IntN(2) {
		at := m.IntN(len(text))
		switch m.IntN(7) {
		case 0:
			text = string(m.bytes([]byte(text)))
			if text == "" {
				return text
			}
		case 1: // another digit
			text = text[:at] + pick(digits) + text[min(len(text), at+1):]
		case 2: // a member once more
			text = strings.Replace(text, pick(words)+":", pick(words)+":"+pick(scraps)+","+pick(words)+":", 1)
		case 3: // another name
			text = strings.Replace(text, pick(words), pick(words), 1)
		case 4: // other letters
			word := pick(words)
			text = strings.Replace(text, word, strings.ToUpper(word[:2])+word[2:], 1)
		case 5: // another value
			word := pick(words) + ":"
			if from := strings.Index(text, word); from >= 0 {
				from += len(word)
				if end := strings.IndexAny(text[from:], ",}"); end >= 0 {
					text = text[:from] + pick(scraps) + text[from+end:]
				}
			}
		default: // part of another payment
			other := m.evm[m.IntN(len(m.evm))].text
			if at < len(other) {
				text = text[:at] + other[at:]
			}
		}
	}
	return text
}

// header is one mutated payment; proven reports whether the parsed order was signed.
func (m *mutator) header() (header string, proven func(o *Order) bool) {
	i := m.IntN(len(m.evm))
	if m.IntN(3) == 0 {
		s := m.solana[i]
		wire := m.bytes(s.wire)
		text := `{"x402Version":2,"scheme":"exact","network":"solana","payload":{"transaction":"` +
			base64.StdEncoding.EncodeToString(wire) + `"}}`
		if m.IntN(8) == 0 {
			text = m.text(text)
		}
		return encoded(text), m.provenSolana
	}
	text := m.text(m.evm[i].text)
	if m.IntN(16) == 0 {
		return string(m.bytes([]byte(encoded(m.evm[i].text)))), m.provenEVM
	}
	return encoded(text), m.provenEVM
}

// provenEVM reports whether one of the wallets signed an order.
func (m *mutator) provenEVM(o *Order) bool {
	if o.EVM == nil {
		return m.provenSolana(o)
	}
	a, _, _, err := o.Authorization()
	digest := a.Digest(m.separator)
	return err == nil && !o.EVM.Contract && slices.ContainsFunc(m.evm,
		func(s signedEVM) bool { return s.digest == digest })
}

func (m *mutator) provenSolana(o *Order) bool {
	if o.Solana == nil {
		return m.provenEVM(o)
	}
	tx, err := o.Transaction()
	return err == nil && slices.ContainsFunc(m.solana, func(s signedSolana) bool {
		return string(s.message) == string(tx.Message)
	})
}

// mutations is how many payments are tried, and taken how many were in all.
func mutations(t *testing.T, seed uint64, n int) {
	no := false
	terms := testTerms(t, func(c *config.X402) { c.Networks[1].ContractWallets = &no })
	const parts = 4
	var mu sync.Mutex
	taken := 0
	var all sync.WaitGroup
	for part := range parts {
		m := newMutator(t, seed+uint64(part))
		all.Go(func() {
			good := 0
			for range n / parts {
				header, proven := m.header()
				p, err := terms.Read(header, now)
				if err != nil {
					continue
				}
				good++
				o, err := ParseOrder(p.Order)
				if err != nil || !proven(o) {
					t.Errorf("accepted without a signature (%v): %s", err, header)
					return
				}
			}
			mu.Lock()
			defer mu.Unlock()
			taken += good
		})
	}
	all.Wait()
	if taken == 0 || taken > n/2 {
		t.Errorf("%d of %d mutated payments were taken, which shows nothing", taken, n)
	}
	t.Logf("%d of %d still equal a signed payment", taken, n)
}

// A payment that differs from the signed one is not accepted, and no payment panics.
func TestMutatedPaymentsAreNeverTaken(t *testing.T) { mutations(t, 0, 4_000) }

// A million mutated payments.
func TestLongAMillionMutatedPayments(t *testing.T) {
	began := time.Now()
	mutations(t, rand.Uint64(), servers.Campaign(1_000_000))
	t.Log(time.Since(began))
}

// variant is a payment that was signed, whatever it says: some hold, some do not.
func (m *mutator) variant(t testing.TB) string {
	if m.IntN(2) == 0 {
		return m.solanaVariant(t)
	}
	p := signed(t, func(a *evm.Authorization) {
		for i := range a.Nonce {
			a.Nonce[i] = byte(m.IntN(256))
		}
		a.Value = evm.NumberOf([]int64{5_000_000, 4_999_999, 10_000_000_000, 10_000_000_001, 1, 7_654_321}[m.IntN(6)])
		a.ValidAfter = evm.NumberOf(now.Unix() + []int64{-600, -1, 0, 1}[m.IntN(4)])
		a.ValidBefore = evm.NumberOf(now.Unix() + []int64{9, 10, 300, 1 << 40}[m.IntN(4)])
		if m.IntN(8) == 0 {
			a.To = a.From
		}
	})
	switch signature, _ := evm.ParseHex(p.Signature, 65); m.IntN(8) {
	case 0:
		signature[64] -= 27
		p.Signature = evm.Hex(signature)
	case 1:
		p.Signature = evm.Hex(highS(signature))
	case 2:
		signature[m.IntN(65)] ^= 1 << m.IntN(8)
		p.Signature = evm.Hex(signature)
	case 3:
		p.Signature = evm.Hex(signature[:m.IntN(65)+1])
	}
	switch a := p.Authorization; m.IntN(10) {
	case 0:
		a.From = strings.ToLower(a.From)
	case 1:
		a.From = "0x" + strings.ToUpper(a.From[2:])
	case 2:
		a.From = a.From[:10] + strings.ToUpper(a.From[10:20]) + a.From[20:]
	case 3:
		a.Value = "0" + a.Value
	case 4:
		a.Nonce = "0x" + strings.ToUpper(a.Nonce[2:])
	case 5:
		a.ValidBefore = fmt.Sprint(m.Uint64())
	}
	text := v2(p)
	if m.IntN(4) == 0 {
		text = m.text(text)
	}
	return encoded(text)
}

// solanaVariant is a transaction with changes that its payer signed.
func (m *mutator) solanaVariant(t testing.TB) string {
	d := svm.Draft{FeePayer: solanaWallet(9).Address(), Payer: solanaWallet(7).Address(), PayTo: solanaWallet(8).Address(),
		Mint: testTerms(t, nil).Network(solana).Asset, Token2022: m.IntN(2) == 0, Memo: strings.Repeat("m", m.IntN(60)),
		Units: []uint64{5_000_000, 4_999_999, 10_000_000_000, 10_000_000_001, 1 << 63, 7_654_321}[m.IntN(6)]}
	tx := d.Transaction()
	for range m.IntN(3) {
		m.change(tx)
	}
	tx.Message = tx.AppendMessage(nil)
	if m.IntN(8) == 0 { // legacy
		tx.Message = tx.Message[1 : len(tx.Message)-1]
	}
	if m.IntN(8) == 0 {
		tx.Message = m.bytes(tx.Message)
	}
	for len(tx.Signatures) < 2 {
		tx.Signatures = append(tx.Signatures, [64]byte{})
	}
	p := solanaWallet(7).Pay(tx)
	if wire, ok := decode(p.Transaction); ok && m.IntN(8) == 0 {
		p.Transaction = base64.StdEncoding.EncodeToString(m.bytes(wire))
	}
	return encoded(shape(p, `"x402Version":2,"scheme":"exact","network":"`+solana+`"`))
}

// change breaks a rule of transactions, or none.
func (m *mutator) change(tx *svm.Transaction) {
	i := &tx.Instructions[m.IntN(len(tx.Instructions))]
	key := func() int { return m.IntN(len(tx.Keys) + 1) }
	switch m.IntN(16) {
	case 0:
		i.Program = key()
	case 1:
		i.Accounts = append(i.Accounts, key())
	case 2:
		if len(i.Accounts) > 0 {
			i.Accounts[m.IntN(len(i.Accounts))] = key()
		}
	case 3:
		i.Data = m.bytes(i.Data)
	case 4:
		i.Data = append(i.Data, 0)
	case 5:
		tx.Keys[m.IntN(len(tx.Keys))][m.IntN(32)] ^= 1
	case 6:
		tx.Instructions = append(tx.Instructions, *i)
	case 7:
		tx.Instructions[0], tx.Instructions[m.IntN(len(tx.Instructions))] =
			tx.Instructions[m.IntN(len(tx.Instructions))], tx.Instructions[0]
	case 8:
		tx.Instructions = tx.Instructions[:1+m.IntN(len(tx.Instructions))]
	case 9:
		tx.Signers = m.IntN(4)
	case 10:
		tx.ReadonlySigners = m.IntN(3)
	case 11:
		tx.ReadonlyOthers = m.IntN(9)
	case 12:
		tx.Signatures[0][m.IntN(64)] = 1
	case 13:
		tx.Keys = append(tx.Keys, tx.Keys[m.IntN(len(tx.Keys))])
	case 14: // another memo
		tx.Instructions = append(tx.Instructions, svm.Instruction{Program: 6, Data: []byte("again")})
	default: // an unused account
		tx.Keys = append(tx.Keys, wallet.Address.Key(solanaWallet(byte(m.IntN(100))).Address()))
		tx.ReadonlyOthers++
	}
}

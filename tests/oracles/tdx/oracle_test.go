// Package tdx_test holds our verdict on quotes against that of Google's library.
package tdx_test

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-tdx-guest/testing/testdata"
	"github.com/google/go-tdx-guest/verify"

	"farebox/bench/upstream/enclave"
	"farebox/providers/tee/tdx"
)

// oracle is the verdict of Google's library about a quote's signatures and certificates;
// it sends no requests. It panics at some lengths: that is a refusal, too.
func oracle(raw []byte, roots *x509.CertPool, now time.Time) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return verify.RawTdxQuote(raw, &verify.Options{Now: now, TrustedRoots: roots})
}

// ours is our verdict on the same.
func ours(raw []byte, root tdx.Root, now time.Time) error {
	q, err := tdx.Parse(raw)
	if err != nil {
		return err
	}
	if _, _, err := q.FMSPC(root, now); err != nil {
		return err
	}
	v := q.Verify(nil, &tdx.Policy{Root: root}, now)
	for _, name := range []string{tdx.CheckChain, tdx.CheckQE, tdx.CheckKey, tdx.CheckSignature} {
		for _, c := range v.Checks {
			if c.Name == name && c.Err != nil {
				return fmt.Errorf("%s: %w", name, c.Err)
			}
		}
	}
	return nil
}

// stricter are our rules that the library does not have, by our error's words.
var stricter = map[string]string{
	"quote: something follows it":    "nothing but zeros follows a quote",
	"quoting enclave is not Intel's": "the header names Intel's quoting enclave",
	"end at the pinned root":         "the root is the pinned certificate itself, not another of its key",
	"the chain is not":               "the chain is three certificates in PEM, and nothing before, between or in them",
	"bytes; at most":                 "a quote has at most 64 KiB, and its chain 32",
	"does not say which it is for":   "the certificate names each part of the processor once, with a version in its range",
}

func ruleOf(err error) string {
	for text, rule := range stricter {
		if strings.Contains(err.Error(), text) {
			return rule
		}
	}
	return ""
}

// A real quote that Google's library ships holds for both, and no change of a bit that
// ours lets pass is one that the library refuses.
func TestARealQuoteOfOthers(t *testing.T) {
	t.Parallel()
	now := time.Date(2023, 7, 1, 0, 0, 0, 0, time.UTC)
	end := atSignature + int(binary.LittleEndian.Uint32(testdata.RawQuote[atSize:]))
	raw := testdata.RawQuote[:end] // words of theirs follow it
	if _, err := tdx.Parse(testdata.RawQuote); err == nil || ruleOf(err) == "" {
		t.Error(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(raw[bytes.LastIndex(raw, []byte("-----BEGIN")):]) {
		t.Fatal("the quote has no root")
	}
	if err := ours(raw, tdx.Intel, now); err != nil {
		t.Error(err)
	}
	if err := oracle(raw, roots, now); err != nil {
		t.Error(err)
	}
	for _, at := range []time.Time{now.AddDate(-20, 0, 0), now.AddDate(40, 0, 0)} {
		if ours(raw, tdx.Intel, at) == nil || oracle(raw, roots, at) == nil {
			t.Errorf("it holds in %d", at.Year())
		}
	}
	step := 7
	if testing.Short() {
		step = 97
	}
	for at := 0; at < len(raw); at += step {
		changed := bytes.Clone(raw)
		changed[at] ^= 1 << (at % 8)
		compare(t, "a bit of a real quote", changed, tdx.Intel, roots, now, nil)
	}
}

// compare holds our verdict against the library's. Whatever we accept, it must accept.
func compare(t *testing.T, kind string, raw []byte, root tdx.Root, roots *x509.CertPool, now time.Time, count map[string]int) bool {
	t.Helper()
	mine, theirs := ours(raw, root, now), oracle(raw, roots, now)
	if count == nil {
		count = map[string]int{}
	}
	switch {
	case mine == nil && theirs == nil:
		count["both accept"]++
	case mine != nil && theirs != nil:
		count["both refuse"]++
	case mine == nil:
		t.Errorf("%s: we accept it; the library: %v\n%s", kind, theirs, hex.EncodeToString(raw))
		return false
	default:
		rule := ruleOf(mine)
		if rule == "" {
			t.Errorf("%s: the library accepts it; we have no rule for: %v\n%s", kind, mine, hex.EncodeToString(raw))
			return false
		}
		count["we alone refuse: "+rule]++
	}
	return true
}

// Ten thousand quotes, honest and not: on signatures and certificates we and Google's
// library are of one mind, but for rules of ours that are named.
func TestWeAndGooglesLibraryAgree(t *testing.T) {
	t.Parallel()
	agree(t, 1000, 1)
}

func TestLongWeAndGooglesLibraryAgree(t *testing.T) {
	agree(t, 10000, uint64(time.Now().UnixNano()))
}

func agree(t *testing.T, quotes int, seed uint64) {
	t.Helper()
	w := newWorld(t, seed)
	count, kinds := map[string]int{}, slices.Sorted(maps.Keys(w.kinds()))
	all := w.kinds()
	wrong := 0
	for i := range quotes {
		kind := kinds[i%len(kinds)]
		raw := all[kind]()
		if !compare(t, kind, raw, w.root, w.roots, w.now, count) {
			if wrong++; wrong == 5 {
				t.Fatalf("and more, with seed %d", seed)
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(count)) {
		t.Logf("%6d %s", count[what], what)
	}
	if count["both accept"] < quotes/20 || count["both refuse"] < quotes/4 {
		t.Errorf("the quotes are of one kind: %v", count)
	}
}

// Each bit of a certificate's data about the processor is read as the library reads it.
func TestEachBitOfAProcessor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	count := map[string]int{}
	for bit := 0; bit < 8*600; bit += 7 {
		compare(t, fmt.Sprintf("bit %d of the processor", bit), w.processor(bit), w.root, w.roots, w.now, count)
	}
	t.Log(count)
}

// Where the library is narrower than Intel's specification we go by that, knowingly.
func TestWhereGooglesLibraryIsNarrower(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	five, err := enclave.New(enclave.Options{Version: 5, Share: w.here})
	if err != nil {
		t.Fatal(err)
	}
	more := func(c *x509.Certificate) {
		c.ExtraExtensions = append(slices.Clip(c.ExtraExtensions), pkix.Extension{Id: asn1.ObjectIdentifier{1, 2, 3}, Value: []byte{5, 0}})
	}
	processor := func(c *x509.Certificate) { c.Subject.CommonName = "Intel SGX PCK Processor CA" }
	for name, c := range map[string]struct {
		raw []byte
		why string
	}{
		"a quote of version 5": {w.quote(five), "quote format not supported"},
		"a further extension":  {w.forge(w.here, enclave.Forgery{Leaf: more}), "extensions length"},
		"the authority of one socket": {w.forge(w.here, enclave.Forgery{Between: processor, Leaf: func(*x509.Certificate) {}}),
			"is not expected in certificate's subject name"},
	} {
		if err := ours(c.raw, w.root, w.now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := oracle(c.raw, w.roots, w.now); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: the library: %v", name, err)
		}
	}
}

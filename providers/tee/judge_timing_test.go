package tee

import (
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"farebox/bench/upstream/enclave"
	"farebox/providers/tee/gpu"
	"farebox/providers/tee/tdx"
	"farebox/providers/tee/teetest"
)

// asked is a report with all that it takes to verify it.
type asked struct {
	j      *Judge
	report []byte
	nonce  [32]byte
	p      *Policy
}

func (a *asked) verify(t testing.TB) {
	t.Helper()
	if v := a.j.Verify(t.Context(), a.report, a.nonce, a.p); !v.Verified() {
		t.Fatalf("%+v", v.Checks)
	}
}

// generated is the report of a test enclave with eight processors.
func generated(t testing.TB) *asked {
	t.Helper()
	_, base, p, j := started(t, enclave.Options{Devices: 8})
	a := &asked{j: j, p: p}
	rand.Read(a.nonce[:])
	a.report = report(t, base, a.nonce)
	a.fetched(t)
	return a
}

// fetched prepares its collateral as the store of published data gives it.
func (a *asked) fetched(t testing.TB) {
	t.Helper()
	q, err := tdx.ParseHex(gjson.GetBytes(a.report, "intel_quote").Str)
	if err != nil {
		t.Fatal(err)
	}
	fmspc, ca, err := q.FMSPC(a.p.TDX.Root, a.j.Now())
	if err != nil {
		t.Fatal(err)
	}
	c, err := a.j.Collaterals.Collateral(t.Context(), fmspc, ca)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Check(a.p.TDX.Root, fmspc, a.j.Now()); err != nil {
		t.Fatal(err)
	}
}

// captured is the report of a real service with eight processors.
func captured(t testing.TB) *asked {
	t.Helper()
	list := teetest.Captures(t)
	of := &list[slices.IndexFunc(list, func(c teetest.Capture) bool { return c.Name == "attestation_glm_5_1.json" })]
	c, err := tdx.ParseCollateral(of.Collateral)
	if err != nil {
		t.Fatal(err)
	}
	nonce, ok := ParseNonce(of.Nonce)
	if !ok {
		t.Fatal("its nonce is invalid")
	}
	a := &asked{&Judge{Collaterals: shelf{c}, Now: func() time.Time { return of.At }}, of.Report, nonce,
		&Policy{TDX: tdx.Policy{Root: tdx.Intel, Accept: []string{tdx.UpToDate}}, Devices: gpu.NVIDIA, GPU: GPULocal}}
	a.fetched(t)
	return a
}

// A whole report: the quote, Intel's published data, eight graphics processors and the
// event log, at the cost of every verification after the first.
func BenchmarkReport(b *testing.B) {
	for name, of := range map[string]func(testing.TB) *asked{"captured": captured, "generated": generated} {
		b.Run(name, func(b *testing.B) {
			a := of(b)
			a.verify(b)
			b.ReportAllocs()
			b.SetBytes(int64(len(a.report)))
			for b.Loop() {
				a.verify(b)
			}
		})
	}
}

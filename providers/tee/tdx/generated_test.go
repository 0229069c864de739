package tdx

import (
	"slices"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream/enclave"
)

// made is a quote of a test enclave, with its published collateral.
func made(t testing.TB, o enclave.Options) (*Quote, *Collateral, *Policy) {
	t.Helper()
	e, err := enclave.New(o)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := e.Quote([64]byte{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	q, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	file, err := e.Collateral()
	if err != nil {
		t.Fatal(err)
	}
	c, err := ParseCollateral(file)
	if err != nil {
		t.Fatal(err)
	}
	root, err := RootOf(e.Root())
	if err != nil {
		t.Fatal(err)
	}
	return q, c, &Policy{Root: root, Accept: []string{UpToDate}}
}

// failed are the checks that do not hold.
func failed(v *Verdict) (names []string) {
	for _, c := range v.Checks {
		if c.Err != nil {
			names = append(names, c.Name)
		}
	}
	return names
}

// The published state decides: each state that Intel names, of the platform, of its
// module and of the quoting enclave.
func TestThePublishedStateDecides(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		o      enclave.Options
		status string
		failed []string
	}{
		"up to date":              {status: UpToDate},
		"a quote of version 5":    {o: enclave.Options{Version: 5}, status: UpToDate},
		"out of date":             {enclave.Options{Published: enclave.Published{Status: OutOfDate}}, OutOfDate, []string{CheckTCB}},
		"to be configured":        {enclave.Options{Published: enclave.Published{Status: Configuration}}, Configuration, []string{CheckTCB}},
		"to be hardened":          {enclave.Options{Published: enclave.Published{Status: SWHardening}}, SWHardening, []string{CheckTCB}},
		"revoked":                 {enclave.Options{Published: enclave.Published{Status: Revoked}}, Revoked, []string{CheckTCB}},
		"an old module":           {enclave.Options{Published: enclave.Published{ModuleStatus: OutOfDate}}, OutOfDate, []string{CheckTCB}},
		"a revoked module":        {enclave.Options{Published: enclave.Published{ModuleStatus: Revoked}}, Revoked, []string{CheckTCB}},
		"an old quoting enclave":  {enclave.Options{Published: enclave.Published{QEStatus: OutOfDate}}, OutOfDate, []string{CheckTCB}},
		"both old and configured": {enclave.Options{Published: enclave.Published{Status: Configuration, QEStatus: OutOfDate}}, OutOfDateAndConfig, []string{CheckTCB}},
		"old, its quoting enclave to be hardened": {enclave.Options{Published: enclave.Published{Status: OutOfDate, QEStatus: SWHardening}},
			OutOfDate, []string{CheckTCB}},
		"revoked, its module to be hardened": {enclave.Options{Published: enclave.Published{Status: Revoked, ModuleStatus: SWHardening}},
			Revoked, []string{CheckTCB}},
		"each to be something else": {enclave.Options{Published: enclave.Published{Status: SWHardening, ModuleStatus: Configuration}},
			ConfigurationAndSW, []string{CheckTCB}},
		"an unknown state, and old": {enclave.Options{Published: enclave.Published{Status: "Splendid", QEStatus: OutOfDate}},
			"Splendid", []string{CheckTCB}},
		"an unknown state":       {enclave.Options{Published: enclave.Published{QEStatus: "Splendid"}}, "Splendid", []string{CheckTCB}},
		"a debugged domain":      {enclave.Options{Lie: enclave.Debug}, UpToDate, []string{CheckDebug}},
		"a module with holes":    {enclave.Options{Lie: enclave.OldModule}, OutOfDate, []string{CheckTCB}},
		"a revoked processor":    {enclave.Options{Published: enclave.Published{RevokePCK: true}}, UpToDate, []string{CheckRevocation}},
		"a revoked intermediate": {enclave.Options{Published: enclave.Published{RevokeCA: true}}, UpToDate, []string{CheckRevocation}},
		"published long ago": {enclave.Options{Published: enclave.Published{At: now.Add(-2 * time.Hour), Next: now.Add(-time.Hour)}},
			"", []string{CheckRevocation, CheckTCBInfo, CheckQEIdentity, CheckTCB}},
		"published in the future": {enclave.Options{Published: enclave.Published{At: now.Add(time.Hour), Next: now.Add(2 * time.Hour)}},
			"", []string{CheckRevocation, CheckTCBInfo, CheckQEIdentity, CheckTCB}},
	} {
		q, collateral, p := made(t, c.o)
		v := q.Verify(collateral, p, now)
		if got := failed(v); !slices.Equal(got, c.failed) || v.Status != c.status || v.Valid() != (len(c.failed) == 0) {
			t.Errorf("%s: %q did not hold, status %q, %+v", name, got, v.Status, v.Checks)
		}
		if !v.Valid() || v.Until.Before(now) {
			continue
		}
		if later := q.Verify(collateral, p, v.Until.Add(time.Second)); later.Valid() {
			t.Errorf("%s: it holds after %s, too", name, v.Until)
		}
		if v := q.Verify(collateral, p, v.Until.Add(-time.Second)); !v.Valid() {
			t.Errorf("%s: it does not hold until %s: %q", name, v.Until, failed(v))
		}
	}
}

// An operator may accept processors that are not up to date, and never revoked ones.
func TestPolicyAcceptsNamedStates(t *testing.T) {
	t.Parallel()
	for _, status := range append(slices.Clone(Statuses), Revoked) {
		q, c, p := made(t, enclave.Options{Published: enclave.Published{Status: status}})
		p.Accept = append(slices.Clone(Statuses), Revoked)
		if v := q.Verify(c, p, time.Now()); v.Valid() != (status != Revoked) || v.Status != status {
			t.Errorf("%s: %q did not hold", status, failed(v))
		}
	}
}

// Foreign, missing or changed evidence proves nothing.
func TestForeignEvidenceProvesNothing(t *testing.T) {
	t.Parallel()
	q, c, p := made(t, enclave.Options{})
	otherQuote, otherCollateral, other := made(t, enclave.Options{})
	now := time.Now()
	if v := q.Verify(c, p, now); !v.Valid() {
		t.Fatal(failed(v))
	}
	if v := q.Verify(c, other, now); v.Valid() || v.Holds(CheckChain) {
		t.Error("under another root")
	}
	if v := q.Verify(c, strict, now); v.Valid() || v.Holds(CheckChain) {
		t.Error("under Intel's root")
	}
	if v := q.Verify(otherCollateral, p, now); v.Valid() || v.Holds(CheckRevocation) || v.Holds(CheckTCBInfo) {
		t.Error("with the collateral of another authority")
	}
	if v := q.Verify(nil, p, now); v.Valid() || !v.Holds(CheckSignature) || !v.Holds(CheckQE) {
		t.Error("without collateral", failed(v))
	}
	mixed := *q
	mixed.signature = otherQuote.signature
	if mixed.Verify(c, p, now).Valid() {
		t.Error("with the signature of another quote")
	}
	mixed = *q
	mixed.chain = otherQuote.chain
	if mixed.Verify(c, p, now).Valid() {
		t.Error("with the certificates of another processor")
	}
	for name, change := range map[string]func(*Collateral){
		"levels":      func(c *Collateral) { c.TCBInfo = replaced(c.TCBInfo, "OutOfDate", "UpToDate") },
		"identity":    func(c *Collateral) { c.QEIdentity = replaced(c.QEIdentity, "OutOfDate", "UpToDate") },
		"the lists":   func(c *Collateral) { c.RootCRL = c.PCKCRL },
		"no list":     func(c *Collateral) { c.PCKCRL = nil },
		"its signers": func(c *Collateral) { c.TCBInfoChain = c.PCKCRLChain },
		"a sibling":   func(c *Collateral) { c.TCBInfo = append(slices.Clone(c.TCBInfo), ' ') },
	} {
		changed := *c
		change(&changed)
		if q.Verify(&changed, p, now).Valid() {
			t.Errorf("with other %s", name)
		}
	}
}

func replaced(raw []byte, from, to string) []byte {
	return []byte(strings.ReplaceAll(string(raw), from, to))
}

// No quote, however broken, panics or is valid.
func FuzzParse(f *testing.F) {
	e, err := enclave.New(enclave.Options{})
	if err != nil {
		f.Fatal(err)
	}
	for _, version := range []int{4, 5} {
		other, err := enclave.New(enclave.Options{Version: version, Share: e})
		if err != nil {
			f.Fatal(err)
		}
		raw, err := other.Quote([64]byte{})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
		f.Add(raw[:700])
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		q, err := Parse(raw)
		if err != nil {
			return
		}
		if q.Verify(nil, strict, time.Now()).Valid() {
			t.Error("it is valid")
		}
		_, _, _ = q.FMSPC(Intel, time.Now())
	})
}

func BenchmarkVerify(b *testing.B) {
	q, c, p := fetched(b, enclave.Options{})
	now := time.Now()
	for b.Loop() {
		if !q.Verify(c, p, now).Valid() {
			b.Fatal("it does not hold")
		}
	}
}

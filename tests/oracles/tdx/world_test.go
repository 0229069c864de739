package tdx_test

import (
	"bytes"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"farebox/bench/upstream/enclave"
	"farebox/providers/tee/tdx"
)

// world makes quotes: a machine, another of the same authority, and a stranger.
type world struct {
	t                  testing.TB
	rand               *rand.Rand
	now                time.Time
	here, next, abroad *enclave.Enclave
	root               tdx.Root
	roots              *x509.CertPool
}

func newWorld(t testing.TB, seed uint64) *world {
	t.Helper()
	w := &world{t: t, rand: rand.New(rand.NewPCG(seed, seed)), now: time.Now()}
	var err error
	if w.here, err = enclave.New(enclave.Options{}); err != nil {
		t.Fatal(err)
	}
	if w.next, err = enclave.New(enclave.Options{Share: w.here, Lie: enclave.Debug}); err != nil {
		t.Fatal(err)
	}
	if w.abroad, err = enclave.New(enclave.Options{}); err != nil {
		t.Fatal(err)
	}
	if w.root, err = tdx.RootOf(w.here.Root()); err != nil {
		t.Fatal(err)
	}
	w.roots = x509.NewCertPool()
	w.roots.AppendCertsFromPEM(w.here.Root())
	return w
}

func (w *world) data() (data [64]byte) {
	for i := range data {
		data[i] = byte(w.rand.Uint32())
	}
	return data
}

func (w *world) quote(e *enclave.Enclave) []byte { return w.forge(e, enclave.Forgery{}) }

func (w *world) forge(e *enclave.Enclave, f enclave.Forgery) []byte {
	raw, err := e.Forge(w.data(), f)
	if err != nil {
		w.t.Fatal(err)
	}
	return raw
}

// The lengths that Intel's specification gives, and the most that we read.
const (
	headerBytes   = 48
	bodyBytes     = 584
	reportBytes   = 384
	pairBytes     = 64
	maxQuoteBytes = 64 << 10
	maxChainBytes = 32 << 10
)

// The parts of a quote of version 4 with 32 bytes of authentication data.
const (
	atBody      = headerBytes
	atSize      = atBody + bodyBytes
	atSignature = atSize + 4
	atKey       = atSignature + pairBytes
	atCertType  = atKey + pairBytes
	atReport    = atCertType + 6
	atReportSig = atReport + reportBytes
	atAuth      = atReportSig + pairBytes
	atChainType = atAuth + 2 + 32
	atChain     = atChainType + 6
)

var parts = map[string][2]int{"header": {0, atBody}, "body": {atBody, atSize}, "size": {atSize, atSignature},
	"signature": {atSignature, atKey}, "key": {atKey, atCertType}, "type": {atCertType, atReport},
	"report": {atReport, atReportSig}, "signature of the report": {atReportSig, atAuth}, "auth": {atAuth, atChainType},
	"type of the chain": {atChainType, atChain}, "chain": {atChain, 0}}

var orderP256 = elliptic.P256().Params().N

// kinds are ways to make a quote, by name.
func (w *world) kinds() map[string]func() []byte {
	k := map[string]func() []byte{}
	for i := range 4 {
		k[fmt.Sprintf("honest %d", i)] = func() []byte { return w.quote(w.here) }
	}
	k["honest, debugged"] = func() []byte { return w.quote(w.next) }
	k["of a stranger"] = func() []byte { return w.quote(w.abroad) }
	for name, part := range parts {
		k["a bit of its "+name] = w.changed(part, func(b []byte, at int) { b[at] ^= 1 << w.rand.IntN(8) })
		k["bytes of its "+name] = w.changed(part, func(b []byte, at int) {
			for i := range b[at:min(len(b), at+1+w.rand.IntN(8))] {
				b[at+i] = []byte{0, 0xff, byte(w.rand.Uint32())}[w.rand.IntN(3)]
			}
		})
		k["its neighbour's "+name] = w.spliced(part, w.next)
		k["a stranger's "+name] = w.spliced(part, w.abroad)
	}
	w.lengths(k)
	w.signatures(k)
	w.forged(k)
	w.certified(k)
	w.chains(k)
	return k
}

func (w *world) changed(part [2]int, change func(b []byte, at int)) func() []byte {
	return func() []byte {
		raw := w.quote(w.here)
		end := part[1]
		if end == 0 {
			end = len(raw)
		}
		change(raw[:end], part[0]+w.rand.IntN(end-part[0]))
		return raw
	}
}

func (w *world) spliced(part [2]int, from *enclave.Enclave) func() []byte {
	return func() []byte {
		raw, other := w.quote(w.here), w.quote(from)
		end := part[1]
		if end == 0 {
			end = min(len(raw), len(other))
		}
		copy(raw[part[0]:end], other[part[0]:end])
		return raw
	}
}

// lengths are quotes that are cut, go on, or say another length than they have.
func (w *world) lengths(k map[string]func() []byte) {
	k["cut"] = func() []byte { raw := w.quote(w.here); return raw[:w.rand.IntN(len(raw))] }
	k["without padding"] = func() []byte { return bytes.TrimRight(w.quote(w.here), "\x00") }
	k["with zeros"] = func() []byte { return append(w.quote(w.here), make([]byte, w.rand.IntN(999))...) }
	k["too long"] = func() []byte { return append(w.quote(w.here), make([]byte, maxQuoteBytes)...) }
	k["with more"] = func() []byte { return append(w.quote(w.here), byte(1+w.rand.IntN(255))) }
	near := func(n uint32) uint32 {
		return []uint32{0, 1, n - 1, n + 1, n + uint32(w.rand.IntN(80)), w.rand.Uint32(), 1<<31 - 1, 1 << 31, 1<<32 - 1}[w.rand.IntN(9)]
	}
	for name, at := range map[string]int{"length": atSize, "length of the evidence": atCertType + 2, "length of the chain": atChainType + 2} {
		k["another "+name] = func() []byte {
			raw := w.quote(w.here)
			binary.LittleEndian.PutUint32(raw[at:], near(binary.LittleEndian.Uint32(raw[at:])))
			return raw
		}
	}
	k["another length of auth"] = func() []byte {
		raw := w.quote(w.here)
		binary.LittleEndian.PutUint16(raw[atAuth:], uint16(near(32)))
		return raw
	}
	k["all lengths one more"] = func() []byte { // the last takes a zero of the padding
		raw := w.quote(w.here)
		by := uint32(1 + w.rand.IntN(3))
		for _, at := range []int{atSize, atCertType + 2, atChainType + 2} {
			binary.LittleEndian.PutUint32(raw[at:], binary.LittleEndian.Uint32(raw[at:])+by)
		}
		return raw
	}
}

// signatures are pairs of numbers that are odd, or signatures in another form.
func (w *world) signatures(k map[string]func() []byte) {
	for name, at := range map[string]int{"signature": atSignature, "signature of the report": atReportSig} {
		for half, n := range map[string]int{"r": 0, "s": 32} {
			set := func(v *big.Int) func() []byte {
				return func() []byte { raw := w.quote(w.here); v.FillBytes(raw[at+n : at+n+32]); return raw }
			}
			k[name+" with "+half+" 0"] = set(new(big.Int))
			k[name+" with "+half+" 1"] = set(big.NewInt(1))
			k[name+" with "+half+" of the order"] = set(orderP256)
		}
		k[name+" negated"] = func() []byte {
			raw := w.quote(w.here)
			s := new(big.Int).SetBytes(raw[at+32 : at+64])
			s.Sub(orderP256, s).FillBytes(raw[at+32 : at+64])
			return raw
		}
		k[name+" turned round"] = func() []byte {
			raw := w.quote(w.here)
			slices.Reverse(raw[at : at+32])
			return raw
		}
	}
	k["a key that is nowhere"] = func() []byte { raw := w.quote(w.here); clear(raw[atKey:atCertType]); return raw }
	k["a key beyond the field"] = func() []byte {
		raw := w.quote(w.here)
		for i := range 32 {
			raw[atKey+i] = 0xff
		}
		return raw
	}
}

// forged are quotes that are signed, though they say something odd.
func (w *world) forged(k map[string]func() []byte) {
	signed := func(change func(b []byte)) func() []byte {
		return func() []byte { return w.forge(w.here, enclave.Forgery{Signed: change}) }
	}
	k["signed: of another vendor"] = signed(func(b []byte) { b[12+w.rand.IntN(16)] ^= 1 << w.rand.IntN(8) })
	k["signed: of another version"] = signed(func(b []byte) { b[0] = byte([]int{0, 3, 5, 6}[w.rand.IntN(4)]) })
	k["signed: of another key type"] = signed(func(b []byte) { b[2] = byte(w.rand.IntN(5)) })
	k["signed: of another domain"] = signed(func(b []byte) { b[4] = byte(w.rand.IntN(256)) })
	k["signed: reserved"] = signed(func(b []byte) { b[8+w.rand.IntN(4)] = byte(w.rand.Uint32()) })
	k["signed: user data"] = signed(func(b []byte) { b[28+w.rand.IntN(20)] = byte(w.rand.Uint32()) })
	k["signed: another body"] = signed(func(b []byte) { b[48+w.rand.IntN(bodyBytes)] = byte(w.rand.Uint32()) })
	k["signed: a report"] = func() []byte {
		return w.forge(w.here, enclave.Forgery{Report: func(r []byte) { r[w.rand.IntN(320)] = byte(w.rand.Uint32()) }})
	}
	k["signed: a report of another key"] = func() []byte {
		return w.forge(w.here, enclave.Forgery{Report: func(r []byte) { r[320+w.rand.IntN(64)] ^= 1 << w.rand.IntN(8) }})
	}
}

// certified are quotes whose certificates are odd, though each is signed.
func (w *world) certified(k map[string]func() []byte) {
	changes := map[string]func(c *x509.Certificate){
		"the same again": func(*x509.Certificate) {},
		"ended":          func(c *x509.Certificate) { c.NotAfter = w.now.Add(-time.Hour) },
		"not begun":      func(c *x509.Certificate) { c.NotBefore = w.now.Add(time.Hour) },
		"another name":   func(c *x509.Certificate) { c.Subject.CommonName += " of others" },
		"another organisation": func(c *x509.Certificate) {
			c.Subject.Organization = []string{"Others"}
		},
		"no authority":       func(c *x509.Certificate) { c.IsCA = false },
		"an authority":       func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true },
		"not for signatures": func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageDigitalSignature },
		"of another hash":    func(c *x509.Certificate) { c.SignatureAlgorithm = x509.ECDSAWithSHA384 },
	}
	for name, change := range changes {
		k["leaf "+name] = func() []byte { return w.forge(w.here, enclave.Forgery{Leaf: change}) }
		k["intermediate "+name] = func() []byte { return w.forge(w.here, enclave.Forgery{Between: change}) }
		k["root "+name] = func() []byte { return w.forge(w.here, enclave.Forgery{Root: change}) }
	}
	k["leaf unknown and critical"] = func() []byte {
		return w.forge(w.here, enclave.Forgery{Leaf: func(c *x509.Certificate) { c.ExtraExtensions[0].Critical = true }})
	}
	k["leaf of no processor"] = func() []byte {
		return w.forge(w.here, enclave.Forgery{Leaf: func(c *x509.Certificate) { c.ExtraExtensions = nil }})
	}
	k["leaf of an odd processor"] = func() []byte { return w.processor(w.rand.IntN(8 * 2048)) }
}

// processor is a quote in whose certificate a bit of the extension of SGX is another.
func (w *world) processor(bit int) []byte {
	return w.forge(w.here, enclave.Forgery{Leaf: func(c *x509.Certificate) {
		value := bytes.Clone(c.ExtraExtensions[0].Value)
		value[bit/8%len(value)] ^= 1 << (bit % 8)
		c.ExtraExtensions = slices.Clone(c.ExtraExtensions)
		c.ExtraExtensions[0].Value = value
	}})
}

// chains are other texts of the same certificates, or others.
func (w *world) chains(k map[string]func() []byte) {
	const end = "-----END CERTIFICATE-----\n"
	for name, change := range map[string]func(s string) string{
		"with a zero":              func(s string) string { return s + "\x00" },
		"with zeros":               func(s string) string { return s + "\x00\x00" },
		"with a line":              func(s string) string { return s + "\n" },
		"with a space":             func(s string) string { return s + " " },
		"without its last line":    func(s string) string { return strings.TrimSuffix(s, "\n") },
		"without its last, a zero": func(s string) string { return strings.TrimSuffix(s, "\n") + "\x00" },
		"after a line":             func(s string) string { return "\n" + s },
		"after words":              func(s string) string { return "words\n" + s },
		"with words between":       func(s string) string { return strings.Replace(s, end, end+"words\n", 1) },
		"with lines between":       func(s string) string { return strings.Replace(s, end, end+"\n\n", 1) },
		"with headers": func(s string) string {
			return strings.Replace(s, "CERTIFICATE-----\n", "CERTIFICATE-----\nA: b\n\n", 1)
		},
		"of four":                func(s string) string { return s + w.last(s) },
		"of two":                 func(s string) string { return strings.TrimSuffix(s, w.last(s)) },
		"of none":                func(string) string { return "" },
		"in another order":       func(s string) string { return w.last(s) + strings.TrimSuffix(s, w.last(s)) },
		"with returns":           func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
		"in one line":            func(s string) string { return oneLine(s) },
		"of another type":        func(s string) string { return strings.ReplaceAll(s, "CERTIFICATE", "X509 CERTIFICATE") },
		"with a block cut short": func(s string) string { return "-----BEGIN CERTIFICATE-----\nAAAA\n" + s },
		"far too long":           func(s string) string { return strings.Repeat("\n", maxChainBytes) + s },
		"with a stranger's root": func(s string) string {
			return strings.TrimSuffix(s, w.last(s)) + string(w.abroad.Root())
		},
	} {
		k["chain "+name] = func() []byte {
			return w.forge(w.here, enclave.Forgery{Chain: func(pem []byte) []byte { return []byte(change(string(pem))) }})
		}
	}
}

// last is the last certificate of a chain.
func (w *world) last(chain string) string { return chain[strings.LastIndex(chain, "-----BEGIN"):] }

// oneLine has each certificate's digits in one line.
func oneLine(chain string) string {
	lines := strings.Split(chain, "\n")
	var b strings.Builder
	for i, line := range lines {
		b.WriteString(line)
		if strings.HasPrefix(line, "-") || i+1 < len(lines) && strings.HasPrefix(lines[i+1], "-") {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

package gpu

import (
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"farebox/bench/upstream/enclave"
)

// eight is the payload of an enclave with eight devices, and their root.
func eight(t testing.TB, nonce [32]byte) (*Payload, Root) {
	t.Helper()
	e, err := enclave.New(enclave.Options{Devices: 8})
	if err != nil {
		t.Fatal(err)
	}
	base, err := e.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	p, err := Read([]byte(evidenceOf(t, base, nonce)))
	if err != nil {
		t.Fatal(err)
	}
	return p, rootOf(t, e.DeviceRoot())
}

func rootOf(t testing.TB, text []byte) Root {
	t.Helper()
	block, _ := pem.Decode(text)
	return sha256.Sum256(block.Bytes)
}

// "Eight devices cost forty signatures of 0.7 ms each, at every question": a chain to the
// root is checked once, for all devices and for the next answer.
func TestCertificatesAreCheckedOnce(t *testing.T) {
	t.Parallel()
	nonce, now := [32]byte{7}, time.Now()
	p, root := eight(t, nonce)
	var k Known
	var first map[[32]byte]*link
	for range 3 {
		if err := k.Check(p, nonce, root, now); err != nil {
			t.Fatal(err)
		}
		if len(k.links) != 8+2 { // each device, its issuer, the root
			t.Errorf("%d certificates are known", len(k.links))
		}
		for name, l := range first {
			if k.links[name] != l {
				t.Error("one was checked again")
			}
		}
		first = k.links
	}
}

// A known link lets nothing pass that would not pass otherwise.
func TestKnownLinksProveNothingElse(t *testing.T) {
	t.Parallel()
	nonce, now := [32]byte{7}, time.Now()
	p, root := eight(t, nonce)
	stranger, strangers := eight(t, nonce)
	var k Known
	if err := k.Check(p, nonce, root, now); err != nil {
		t.Fatal(err)
	}
	size := len(k.links)
	refused := func(what string, p *Payload, nonce [32]byte, root Root, now time.Time) {
		t.Helper()
		if k.Check(p, nonce, root, now) == nil {
			t.Errorf("%s holds", what)
		}
	}
	refused("another nonce", p, [32]byte{8}, root, now)
	refused("another root", p, nonce, Root{1}, now)
	refused("a stranger's root", p, nonce, strangers, now)
	refused("a stranger", stranger, nonce, root, now)
	refused("an expired certificate", p, nonce, root, now.AddDate(11, 0, 0))
	refused("a certificate of the future", p, nonce, root, now.AddDate(0, 0, -2))
	with := func(change func(e *Evidence)) *Payload {
		other := *p
		other.Evidence = slices.Clone(p.Evidence)
		change(&other.Evidence[3])
		return &other
	}
	refused("evidence of a neighbour", with(func(e *Evidence) { e.Evidence = p.Evidence[4].Evidence }), nonce, root, now)
	refused("a stranger's chain", with(func(e *Evidence) { e.Certificate = stranger.Evidence[3].Certificate }), nonce, root, now)
	refused("a stranger with our root", with(func(e *Evidence) {
		own, theirs := blocks(t, e.Certificate), blocks(t, stranger.Evidence[3].Certificate)
		e.Certificate = joined(theirs[0], theirs[1], own[2])
	}), nonce, root, now)
	refused("a stranger below ours", with(func(e *Evidence) {
		own, theirs := blocks(t, e.Certificate), blocks(t, stranger.Evidence[3].Certificate)
		e.Certificate = joined(theirs[0], own[1], own[2])
	}), nonce, root, now)
	refused("a device as an authority", with(func(e *Evidence) {
		own := blocks(t, e.Certificate)
		e.Certificate = joined(own[0], own[0], own[1], own[2])
	}), nonce, root, now)
	refused("a device alone", with(func(e *Evidence) { e.Certificate = joined(blocks(t, e.Certificate)[0]) }), nonce, root, now)
	refused("the root alone", with(func(e *Evidence) { e.Certificate = joined(blocks(t, e.Certificate)[2]) }), nonce, root, now)
	if err := k.Check(p, nonce, root, now); err != nil {
		t.Error(err)
	}
	if len(k.links) != size {
		t.Errorf("%d links became known that do not lead to the root", len(k.links)-size)
	}
}

// "One processor stood in the list eight times, and we counted eight": each answers once.
func TestADeviceAnswersOnce(t *testing.T) {
	t.Parallel()
	nonce, now := [32]byte{7}, time.Now()
	p, root := eight(t, nonce)
	again := *p
	again.Evidence = slices.Clone(p.Evidence)
	again.Evidence[7] = p.Evidence[2]
	if err := again.Check(nonce, root, now); !errors.Is(err, errTwice) {
		t.Error(err)
	}
	spaced := blocks(t, p.Evidence[2].Certificate)
	again.Evidence[7].Certificate = joined(spaced[0], "\n", spaced[1], spaced[2])
	if err := again.Check(nonce, root, now); !errors.Is(err, errTwice) {
		t.Error(err)
	}
}

// A signature that is not a pair of numbers from 1 to below the order of the curve is invalid.
func TestOddSignaturesOfDevices(t *testing.T) {
	t.Parallel()
	nonce, now := [32]byte{7}, time.Now()
	p, root := eight(t, nonce)
	raw, err := base64.StdEncoding.DecodeString(p.Evidence[0].Evidence)
	if err != nil {
		t.Fatal(err)
	}
	n := elliptic.P384().Params().N
	at := len(raw) - pairBytes
	for name, pair := range map[string][2]*big.Int{
		"zeros": {new(big.Int), new(big.Int)}, "r 0": {new(big.Int), big.NewInt(1)}, "s 0": {big.NewInt(1), new(big.Int)},
		"r of the order": {n, big.NewInt(1)}, "s of the order": {big.NewInt(1), n}, "ones": {big.NewInt(1), big.NewInt(1)},
	} {
		changed := slices.Clone(raw)
		pair[0].FillBytes(changed[at : at+48])
		pair[1].FillBytes(changed[at+48:])
		e := Evidence{Certificate: p.Evidence[0].Certificate, Evidence: base64.StdEncoding.EncodeToString(changed)}
		if err := e.check(nonce, root, now); !errors.Is(err, errSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
	long := p.Evidence[0]
	long.Certificate = joined(append([]string{strings.Repeat("\n", maxChainBytes)}, blocks(t, long.Certificate)...)...)
	if err := long.check(nonce, root, now); !errors.Is(err, errChain) {
		t.Errorf("a long chain: %v", err)
	}
}

func (e *Evidence) check(nonce [32]byte, root Root, now time.Time) error {
	p := Payload{Nonce: hex.EncodeToString(nonce[:]), Evidence: []Evidence{*e}}
	return p.Check(nonce, root, now)
}

func blocks(t testing.TB, certificate string) (list []string) {
	t.Helper()
	text, err := base64.StdEncoding.DecodeString(certificate)
	if err != nil {
		t.Fatal(err)
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			t.Fatal(err)
		}
		list = append(list, string(pem.EncodeToMemory(block)))
	}
	return list
}

func joined(blocks ...string) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Join(blocks, "")))
}

// Reports of many enclaves come at once, and the kept links are bounded.
func TestManyDevicesAtOnce(t *testing.T) {
	t.Parallel()
	nonce, now := [32]byte{7}, time.Now()
	p, root := eight(t, nonce)
	var k Known
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := k.Check(p, nonce, root, now); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	k.links = map[[32]byte]*link{}
	for i := range maxLinks {
		k.links[[32]byte{byte(i), byte(i >> 8)}] = &link{}
	}
	if err := k.Check(p, nonce, root, now); err != nil || len(k.links) > maxLinks {
		t.Error(err, len(k.links))
	}
}

package billing

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"farebox/billing/disk"
	"farebox/billing/store"
)

// hasher makes digests without allocating.
type hasher struct{ pool sync.Pool }

type hashState struct {
	mac hash.Hash
	sum []byte
}

func newHasher(pepper []byte) *hasher {
	h := &hasher{}
	h.pool.New = func() any {
		return &hashState{mac: hmac.New(sha256.New, pepper), sum: make([]byte, 0, sha256.Size)}
	}
	return h
}

func (h *hasher) digest(secret []byte) (d store.Digest) {
	s := h.pool.Get().(*hashState)
	s.mac.Reset()
	s.mac.Write(secret)
	s.sum = s.mac.Sum(s.sum[:0])
	copy(d[:], s.sum)
	h.pool.Put(s)
	return d
}

const (
	pepperFile = "pepper"
	// secretDigits is how many base62 digits hold 32 bytes.
	secretDigits = 43
	base62       = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// loadPepper reads the store's pepper, or makes it at the first start.
func loadPepper(dir string) ([]byte, error) {
	path := filepath.Join(dir, pepperFile)
	b, err := os.ReadFile(path)
	if err == nil && len(b) != store.PepperBytes {
		return nil, fmt.Errorf("cannot use %s: it must have %d bytes; restore it from a backup, without it no key "+
			"is valid", path, store.PepperBytes)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return b, err
	}
	if _, err := os.Stat(filepath.Join(dir, store.DatabaseFile)); err == nil {
		return nil, fmt.Errorf("cannot find %s although there is a ledger: restore it from a backup, without it no "+
			"key is valid", path)
	}
	b = newPepper()
	return b, disk.WriteSecret(path, b)
}

func newPepper() []byte {
	b := make([]byte, store.PepperBytes)
	_, _ = rand.Read(b)
	return b
}

// secretPrefix is the prefix of a secret of this brand (addendum 0).
func secretPrefix(brand string, t store.KeyType) string {
	return strings.ToUpper(brand) + "_" + t.String() + "_KEY_"
}

// newSecret is the secret of a key: the prefix and 32 random bytes in base62.
func newSecret(brand string, t store.KeyType, random [32]byte) string {
	return secretPrefix(brand, t) + base62Of(random)
}

// base62Of are 32 bytes in base62.
func base62Of(b [32]byte) string {
	n, base, rest := new(big.Int).SetBytes(b[:]), big.NewInt(int64(len(base62))), new(big.Int)
	var digits [secretDigits]byte
	for i := range digits {
		n.QuoRem(n, base, rest)
		digits[secretDigits-1-i] = base62[rest.Int64()]
	}
	return string(digits[:])
}

// newUUID is a random (version 4) UUID.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

package replay

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha512"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"farebox/config/fair"
)

// Values keeps small texts for a window. Each belongs to an account and has a name there.
// Its store is of the kind that keeps answers, with files, or names in Redis, and shares of
// its own: texts that an account may refer to must not use the space of its keyed answers.
//
// A text is sealed under a key of its own, which its account, its name and the secret
// give. The id is made of the same, so that another account's name finds nothing.
type Values struct {
	store  store
	secret []byte
	node   uint32
	log    zerolog.Logger
	now    func() int64 // Unix ns
	rests  atomic.Int64 // Unix ns; before it nothing is kept, since the store did not answer

	kept, large, full, away atomic.Int64
}

const (
	// MaxValue is the largest text that is kept.
	MaxValue = 256 << 10
	// restFor is how long nothing is kept after the store did not answer: answers do not
	// wait for it one after the other.
	restFor = time.Second
)

// ValuesStats are figures of the values that were to be kept.
type ValuesStats struct {
	Kept  int64
	Large int64 // not kept: above MaxValue
	Full  int64 // not kept: the owner has its share of the store
	Away  int64 // not kept: the store did not answer
}

// OpenValues opens them, in a folder of their own; nil without a window, and then their
// files on disk are removed.
func OpenValues(o Options, secret []byte) (v *Values, err error) {
	if o.Config.Window == 0 {
		return nil, os.RemoveAll(filepath.Join(o.Dir, o.Folder))
	}
	v = &Values{secret: secret, node: o.Node, log: o.Log, now: o.Now}
	if v.store, err = openStore(&o, 0); err != nil {
		return nil, err
	}
	return v, nil
}

// Put keeps a text under a name of an account, where there is space for it. It says
// whether it did.
func (v *Values) Put(account uint32, o fair.Owner, name, text []byte) bool {
	now := v.now()
	switch {
	case len(text) > MaxValue:
		v.large.Add(1)
		return false
	case now < v.rests.Load():
		v.away.Add(1)
		return false
	}
	id, lock, context := v.lock(account, name)
	nonce := make([]byte, lock.NonceSize(), lock.NonceSize()+len(text)+lock.Overhead())
	_, _ = rand.Read(nonce)
	r := &record{kind: kindDone, id: id, atMs: now / 1e6, node: v.node, owner: o, boot: uint64(account)}
	r.rest = lock.Seal(nonce, nonce, text, context)
	r.size, r.sum = uint32(len(r.rest)), crc32.Checksum(r.rest, castagnoli)
	switch err := v.store.keep(r); {
	case err == nil:
		v.kept.Add(1)
		return true
	case errors.Is(err, errFull):
		v.full.Add(1)
	default:
		v.away.Add(1)
		v.rests.Store(now + int64(restFor))
		v.log.Warn().Err(err).Msg("cannot keep answers or their items; later requests will not find them")
	}
	return false
}

// Drop removes the texts of names of an account. ErrAway says that the store did not answer.
func (v *Values) Drop(account uint32, o fair.Owner, names [][]byte) error {
	for _, name := range names {
		id, _, _ := v.lock(account, name)
		if err := v.store.drop(&record{kind: kindForgotten, flags: flagOwned, id: id, atMs: v.now() / 1e6, node: v.node, owner: o}); err != nil {
			v.log.Warn().Err(err).Msg("cannot remove a kept answer")
			return ErrAway
		}
	}
	return nil
}

// Find gives the texts of names of an account, nil for each that is not known. ErrAway
// says that the store did not answer.
func (v *Values) Find(account uint32, names [][]byte) ([][]byte, error) {
	ids := make([]requestID, len(names))
	for i, name := range names {
		ids[i], _, _ = v.lock(account, name)
	}
	list, err := v.store.load(ids...)
	if err != nil {
		v.log.Warn().Err(err).Msg("cannot look up kept answers or items; the request is refused")
		return nil, ErrAway
	}
	texts := make([][]byte, len(names))
	for i, r := range list {
		if r == nil {
			continue
		}
		_, lock, context := v.lock(account, names[i])
		if n := lock.NonceSize(); len(r.rest) >= n {
			texts[i], _ = lock.Open(nil, r.rest[:n], r.rest[n:], context) // a damaged text is not known
		}
	}
	return texts, nil
}

// lock gives the id of a name, the cipher that seals its text, and the data that the seal also covers.
func (v *Values) lock(account uint32, name []byte) (id requestID, lock cipher.AEAD, context []byte) {
	context = append(binary.LittleEndian.AppendUint32(make([]byte, 0, 4+len(name)), account), name...)
	mac := hmac.New(sha512.New, v.secret)
	mac.Write(context)
	sum := mac.Sum(nil)
	block, err := aes.NewCipher(sum[16:48])
	if err == nil {
		lock, err = cipher.NewGCM(block)
	}
	if err != nil {
		panic("replay: the length of a key is wrong: " + err.Error())
	}
	return requestID(sum[:16]), lock, context
}

// Stats reads the figures.
func (v *Values) Stats() ValuesStats {
	return ValuesStats{Kept: v.kept.Load(), Large: v.large.Load(), Full: v.full.Load(), Away: v.away.Load()}
}

// Close writes the remaining records.
func (v *Values) Close() error { return v.store.close() }

package billing

import (
	"crypto/hmac"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// usageCursor is where a history goes on and with what filters. Clients get it
// as text that only this ledger can make, good for one account and a while.
type usageCursor struct {
	HistoryQuery
	from usagePosition
}

// ErrCursor is a cursor that is damaged, of another account or expired.
var ErrCursor = errors.New("the cursor cannot be used")

const (
	cursorVersion = 1
	cursorMAC     = 16
	// MaxCursor is the longest cursor (addendum 17.3).
	MaxCursor = 512
)

func (l *Ledger) makeCursor(a *AccountState, c *usageCursor) string {
	b := []byte{cursorVersion, byte(c.Currency), c.from.line}
	for _, v := range []uint64{
		uint64(l.now()/int64(time.Second)) + uint64(cursorFor/time.Second), uint64(c.FromUs), uint64(c.ToUs), uint64(c.PageSize),
		uint64(c.from.us), uint64(c.from.node), c.from.seq,
	} {
		b = binary.AppendUvarint(b, v)
	}
	mac := l.cursorMAC(a, b)
	return base64.RawURLEncoding.EncodeToString(append(b, mac[:cursorMAC]...))
}

// cursorMAC also covers the account, which is not in the cursor. What it hashes
// can be no key's secret.
func (l *Ledger) cursorMAC(a *AccountState, b []byte) digest {
	text := append([]byte("usage-history cursor\x00"+a.ID+"\x00"), b...)
	return l.hasher.digest(text)
}

func (l *Ledger) readCursor(a *AccountState, text string) (*usageCursor, error) {
	if len(text) > MaxCursor {
		return nil, fmt.Errorf("%w: it has more than %d characters", ErrCursor, MaxCursor)
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) <= cursorMAC {
		return nil, fmt.Errorf("%w: it is damaged", ErrCursor)
	}
	b, sum := b[:len(b)-cursorMAC], b[len(b)-cursorMAC:]
	if mac := l.cursorMAC(a, b); !hmac.Equal(mac[:cursorMAC], sum) {
		return nil, fmt.Errorf("%w: it is damaged or belongs to another account", ErrCursor)
	}
	c := &usageCursor{}
	d := numbers{b: b}
	version := d.byte()
	c.Currency, c.from.line = Currency(d.byte()), d.byte()
	expires := d.int()
	c.FromUs, c.ToUs, c.PageSize = d.int(), d.int(), int(d.uint32())
	c.from.us, c.from.node, c.from.seq = d.int(), d.uint32(), d.uint()
	if d.bad || len(d.b) != 0 || version != cursorVersion {
		return nil, fmt.Errorf("%w: it was made by another version", ErrCursor)
	}
	if l.now()/int64(time.Second) >= expires {
		return nil, fmt.Errorf("%w: it has expired", ErrCursor)
	}
	return c, nil
}

package report

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"farebox/billing/money"
	"farebox/billing/store"
)

// cursor is where a history continues and with which filters. Clients get it
// as text that only the nodes of its store can make, good for one account and a while.
type cursor struct {
	HistoryQuery
	from   Position
	pruned store.Pruned // when it was made
}

// ErrCursor is a cursor that is damaged, of another account or expired.
var ErrCursor = errors.New("the cursor cannot be used")

const (
	cursorVersion = 2
	cursorMAC     = 16
	// MaxCursor is the longest cursor (addendum 17.3).
	MaxCursor = 512
)

// cursorHead is how many bytes precede the numbers of a cursor.
const cursorHead = 3

// cursorNumbers reads the numbers of a cursor, which are all of its rest.
func cursorNumbers(b []byte) (v [9]uint64, ok bool) {
	if len(b) < cursorHead {
		return v, false
	}
	b = b[cursorHead:]
	for i := range v {
		n := 0
		if v[i], n = binary.Uvarint(b); n <= 0 {
			return v, false
		}
		b = b[n:]
	}
	return v, len(b) == 0
}

func (a Account) makeCursor(c *cursor) string {
	b := []byte{cursorVersion, byte(c.Currency), c.from.Line}
	for _, v := range []uint64{
		uint64(a.source.Now()/int64(time.Second)) + uint64(cursorFor/time.Second),
		uint64(c.FromUs), uint64(c.ToUs), uint64(c.PageSize),
		uint64(c.from.Us), uint64(c.from.Node), c.from.Seq, uint64(c.pruned.Day), uint64(c.pruned.Steps),
	} {
		b = binary.AppendUvarint(b, v)
	}
	mac := a.cursorMAC(b)
	return base64.RawURLEncoding.EncodeToString(append(b, mac[:cursorMAC]...))
}

// cursorMAC also covers the account, which is not in the cursor. Its input
// cannot be a key's secret.
func (a Account) cursorMAC(b []byte) [sha256.Size]byte {
	text := append([]byte("usage-history cursor\x00"+a.ID+"\x00"), b...)
	return a.source.Sign(text)
}

func (a Account) readCursor(text string) (*cursor, error) {
	if len(text) > MaxCursor {
		return nil, fmt.Errorf("%w: it has more than %d characters", ErrCursor, MaxCursor)
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) <= cursorMAC {
		return nil, fmt.Errorf("%w: it is damaged", ErrCursor)
	}
	b, sum := b[:len(b)-cursorMAC], b[len(b)-cursorMAC:]
	if mac := a.cursorMAC(b); !hmac.Equal(mac[:cursorMAC], sum) {
		return nil, fmt.Errorf("%w: it is damaged or belongs to another account", ErrCursor)
	}
	v, ok := cursorNumbers(b)
	if !ok || b[0] != cursorVersion {
		return nil, fmt.Errorf("%w: it was made by another version", ErrCursor)
	}
	c := &cursor{}
	c.Currency, c.from.Line = money.Currency(b[1]), b[2]
	expires := int64(v[0])
	c.FromUs, c.ToUs, c.PageSize = int64(v[1]), int64(v[2]), int(v[3])
	c.from.Us, c.from.Node, c.from.Seq = int64(v[4]), uint32(v[5]), v[6]
	c.pruned = store.Pruned{Day: int32(v[7]), Steps: int64(v[8])}
	if a.source.Now()/int64(time.Second) >= expires {
		return nil, fmt.Errorf("%w: it has expired", ErrCursor)
	}
	return c, nil
}

// movedOn says whether single requests behind the cursor were pruned since it was made: those
// that its earlier pages had are in the sums of their day, too.
func (c *cursor) movedOn(now store.Pruned) bool {
	return now.Steps != c.pruned.Steps && c.from.Us < store.SumUs(now.Day) && c.from.Us > store.SumUs(c.pruned.Day-2)
}

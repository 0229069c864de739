package billing

import (
	"encoding/binary"
	"math/rand/v2"
	"time"
)

// NewRequestID makes the id of a request: six bytes of its time in Unix milliseconds, so that its
// charge is found by time, and ten of chance.
func NewRequestID(nowNs int64) (id [16]byte) {
	a := uint64(nowNs/int64(time.Millisecond))<<16 | rand.Uint64()&0xffff
	binary.BigEndian.PutUint64(id[:8], a)
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	return id
}

// requestTime is the time in an id, in Unix µs. An id that was made otherwise has any.
func requestTime(id [16]byte) int64 { return int64(binary.BigEndian.Uint64(id[:8])>>16) * 1000 }

// firstRequestUs is a time before any request: 2025.
const firstRequestUs = 1_735_689_600_000_000

package billing

import (
	"testing"
	"unsafe"
)

// With 100,000 keys a request waits most for the cache lines of its key and account, so
// the fields that it touches share few lines.
func TestHotFieldsLieTogether(t *testing.T) {
	const pair = 128 // cache lines are fetched in pairs of 64 bytes
	for _, c := range []struct {
		what      string
		got, want uintptr
	}{
		// Allocations of such sizes begin at a multiple of a pair.
		{"size of an account", unsafe.Sizeof(AccountState{}), 3 * pair},
		{"size of a key", unsafe.Sizeof(Key{}), pair},
		{"an account's first window", unsafe.Offsetof(AccountState{}.first), pair},
	} {
		if unsafe.Sizeof(uintptr(0)) == 8 && c.got != c.want {
			t.Errorf("%s is at or is %d, expected %d", c.what, c.got, c.want)
		}
	}
}

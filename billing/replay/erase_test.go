package replay

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"farebox/bench/servers"
	"farebox/config/fair"
)

// A closed store is erased, too: all entries of one account, including dropped and
// replaced ones, and no others.
func TestErasedEntriesLeaveTheStore(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"files", "Redis"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			var r *servers.Redis
			if where == "Redis" {
				r = servers.StartRedis(t)
			}
			v := openValues(t, r, nil)
			for account := uint32(1); account <= 2; account++ {
				for i := range 700 { // more than Redis is asked for at once
					v.put(account, fmt.Append(nil, "name-", i), fmt.Append(nil, "text-", i))
				}
				v.Put(account, fair.Paid(uint64(account)), []byte("name-0"), []byte("newer"))
				if err := v.Drop(account, fair.Paid(uint64(account)), [][]byte{[]byte("name-1")}); err != nil {
					t.Fatal(err)
				}
			}
			if err := v.Close(); err != nil {
				t.Fatal(err)
			}
			sealed := filesOf(t, v.o.Dir)
			for round, want := range []int64{701, 0} {
				if r != nil && round == 0 {
					want = 699 // without the one that was replaced, and the one that was dropped
				}
				if n, err := EraseIn(v.o, 1); err != nil || n != want {
					t.Errorf("round %d erases %d texts (%v), expected %d", round, n, err, want)
				}
			}
			if after := filesOf(t, v.o.Dir); r == nil && (len(after) != len(sealed) || bytes.Equal(after, sealed)) {
				t.Errorf("the files have %d bytes, they had %d", len(after), len(sealed))
			}
			v.open()
			for i := range 700 {
				v.want(1, fmt.Sprint("name-", i), "")
				switch i {
				case 0:
					v.want(2, "name-0", "newer")
				case 1:
					v.want(2, "name-1", "")
				default:
					v.want(2, fmt.Sprint("name-", i), fmt.Sprint("text-", i))
				}
			}
			if !v.Put(1, fair.Paid(1), []byte("name-5"), []byte("again")) {
				t.Error("nothing is kept any more")
			}
			v.want(1, "name-5", "again")
		})
	}
}

// filesOf are the bytes of all files in a folder.
func filesOf(t *testing.T, folder string) (all []byte) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	return all
}

package replay

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"farebox/bench/servers"
	"farebox/config"
	"farebox/config/fair"
)

// values are those of a process, with a clock of its own.
type values struct {
	*Values
	t     testing.TB
	o     Options
	nowNs atomic.Int64
}

func openValues(t testing.TB, r *servers.Redis, adjust func(*config.Idempotency)) *values {
	t.Helper()
	v := &values{t: t}
	v.nowNs.Store(time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC).UnixNano())
	v.o = Options{Dir: t.TempDir(), Folder: "items", Prefix: "svc:items:0:", Node: 1, Log: zerolog.Nop(), Now: v.nowNs.Load,
		Config: config.Default[config.Idempotency]()}
	v.o.Config.Window = time.Minute
	if r != nil {
		v.o.Redis = config.Redis{Addresses: []string{r.Addr}}
	}
	if adjust != nil {
		adjust(&v.o.Config)
	}
	v.open()
	t.Cleanup(func() { _ = v.Close() })
	return v
}

func (v *values) open() {
	v.t.Helper()
	var err error
	if v.Values, err = OpenValues(v.o, []byte("secret")); err != nil {
		v.t.Fatal(err)
	}
}

// put keeps a text. On a busy machine Redis may be too slow for the first try.
func (v *values) put(account uint32, name, text []byte) {
	v.t.Helper()
	for end := time.Now().Add(20 * time.Second); !v.Put(account, fair.Paid(uint64(account)), name, text); {
		if time.Now().After(end) {
			v.t.Fatalf("%s of account %d is not kept", name, account)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// want fails unless an account's name has the text; empty: no text.
func (v *values) want(account uint32, name, text string) {
	v.t.Helper()
	found, err := v.Find(account, [][]byte{[]byte("unknown"), []byte(name)})
	if err != nil || found[0] != nil || string(found[1]) != text || (text == "") != (found[1] == nil) {
		v.t.Errorf("%s of account %d is %q (%v), want %q", name, account, found, err, text)
	}
}

func valuesOnBoth(t *testing.T, adjust func(*config.Idempotency), story func(t *testing.T, v *values)) {
	t.Run("files", func(t *testing.T) { story(t, openValues(t, nil, adjust)) })
	t.Run("redis", func(t *testing.T) { story(t, openValues(t, servers.StartRedis(t), adjust)) })
}

// A text is found by its account alone, also by the next process, and the last text of a
// name counts.
func TestValuesBelongToAnAccount(t *testing.T) {
	t.Parallel()
	valuesOnBoth(t, nil, func(t *testing.T, v *values) {
		v.Put(1, fair.Paid(1), []byte("msg_1"), []byte("first"))
		v.Put(1, fair.Paid(1), []byte("msg_1"), []byte("second"))
		v.Put(1, fair.Paid(1), []byte("msg_2"), bytes.Repeat([]byte("x"), MaxValue))
		v.Put(1, fair.Paid(1), []byte("msg_3"), bytes.Repeat([]byte("x"), MaxValue+1))
		for range 2 {
			v.want(1, "msg_1", "second")
			v.want(2, "msg_1", "")
			v.want(1, "msg_2", string(bytes.Repeat([]byte("x"), MaxValue)))
			v.want(1, "msg_3", "")
			if err := v.Close(); err != nil {
				t.Fatal(err)
			}
			v.open()
		}
		v.Put(1, fair.Paid(1), []byte("msg_4"), bytes.Repeat([]byte("x"), MaxValue+1))
		if got := v.Stats(); got != (ValuesStats{Large: 1}) {
			t.Errorf("counted are %+v", got)
		}
	})
}

func TestValuesExpire(t *testing.T) {
	t.Parallel()
	v := openValues(t, nil, nil)
	v.Put(1, fair.Paid(1), []byte("msg_1"), []byte("text"))
	v.nowNs.Add(int64(59 * time.Second))
	v.want(1, "msg_1", "text")
	v.nowNs.Add(int64(time.Second))
	v.want(1, "msg_1", "")
	r := servers.StartRedis(t)
	shared := openValues(t, r, func(c *config.Idempotency) { c.Window = 4 * time.Second })
	shared.Put(1, fair.Paid(1), []byte("msg_1"), []byte("text"))
	shared.want(1, "msg_1", "text")
	time.Sleep(4100 * time.Millisecond)
	shared.want(1, "msg_1", "")
}

// No process finds a dropped text, whether or not its owner has space.
func TestValuesAreDropped(t *testing.T) {
	t.Parallel()
	valuesOnBoth(t, func(c *config.Idempotency) { c.MaxStored = 1 << 20 }, func(t *testing.T, v *values) {
		text := bytes.Repeat([]byte("x"), 64<<10)
		n := 0
		for v.Put(1, fair.Paid(1), fmt.Appendf(nil, "resp_%d", n), text) {
			n++
		}
		if err := v.Drop(2, fair.Paid(2), [][]byte{[]byte("resp_1")}); err != nil {
			t.Fatal(err)
		}
		if err := v.Drop(1, fair.Paid(1), [][]byte{[]byte("resp_0"), []byte("unknown")}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			v.want(1, "resp_0", "")
			v.want(1, "resp_1", string(text))
			if err := v.Close(); err != nil {
				t.Fatal(err)
			}
			v.open()
		}
	})
}

// An account with a full share keeps no more texts, and others keep as many as before.
func TestValuesAreSharedByOwner(t *testing.T) {
	t.Parallel()
	valuesOnBoth(t, func(c *config.Idempotency) { c.MaxStored = 1 << 20 }, func(t *testing.T, v *values) {
		text := bytes.Repeat([]byte("x"), 64<<10)
		for i := range 32 {
			v.Put(1, fair.Paid(1), fmt.Appendf(nil, "msg_%d", i), text)
		}
		v.want(1, "msg_0", string(text))
		v.want(1, "msg_31", "")
		v.Put(2, fair.Paid(2), []byte("msg_31"), text)
		v.want(2, "msg_31", string(text))
		if s := v.Stats(); s.Kept < 10 || s.Full < 10 || s.Kept+s.Full != 33 {
			t.Errorf("counted are %+v", s)
		}
	})
}

// Files on disk reveal nothing without the secret, and changed files are ignored.
func TestValuesAreSealed(t *testing.T) {
	t.Parallel()
	v := openValues(t, nil, nil)
	v.Put(1, fair.Paid(1), []byte("msg_1"), []byte("a text that nobody may read"))
	paths, err := filepath.Glob(filepath.Join(v.o.Dir, v.o.Folder, "*"))
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	text, err := os.ReadFile(paths[0])
	if err != nil || bytes.Contains(text, []byte("nobody")) || bytes.Contains(text, []byte("msg_1")) {
		t.Errorf("on disk is %q (%v)", text, err)
	}
	text[len(text)-1] ^= 1
	if err := os.WriteFile(paths[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
	v.want(1, "msg_1", "")
	v.o.Config.Window = 0
	if none, err := OpenValues(v.o, nil); none != nil || err != nil {
		t.Errorf("without a window: %v, %v", none, err)
	}
	if _, err := os.Stat(filepath.Dir(paths[0])); !os.IsNotExist(err) {
		t.Errorf("without a window there still is a directory: %v", err)
	}
}

// Answers do not wait one after the other for an unresponsive Redis.
func TestValuesDoNotWaitForRedis(t *testing.T) {
	t.Parallel()
	r := servers.StartRedis(t)
	v := openValues(t, r, nil)
	v.Put(1, fair.Paid(1), []byte("msg_1"), []byte("text"))
	r.Freeze()
	defer r.Thaw()
	began := time.Now()
	for i := range 100 {
		v.Put(1, fair.Paid(1), fmt.Appendf(nil, "msg_%d", i), []byte("text"))
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("100 texts took %s", took)
	}
	if s := v.Stats(); s != (ValuesStats{Kept: 1, Away: 100}) {
		t.Errorf("counted are %+v", s)
	}
	if _, err := v.Find(1, [][]byte{[]byte("msg_1")}); !errors.Is(err, ErrAway) {
		t.Errorf("a text is looked up with %v", err)
	}
}

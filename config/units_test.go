package config

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSizes(t *testing.T) {
	f := func(in string, want Size, ok bool) {
		t.Helper()
		got, err := ParseSize(in)
		if got != want || (err == nil) != ok {
			t.Errorf("%q: %d, %v", in, got, err)
		}
	}
	f("0", 0, true)
	f("512", 512, true)
	f("64KB", 64<<10, true)
	f("35MB", 35<<20, true)
	f("1GB", 1<<30, true)
	f("8589934591GB", 8589934591<<30, true)
	f("8589934592GB", 0, false) // 2^63
	f("9223372036854775808", 0, false)
	f("1.5GB", 0, false)
	f("-1", 0, false)
	f("KB", 0, false)
	f("1 KB", 0, false)
	f("1kb", 0, false)
	f("1TB", 0, false)
	f("01", 0, false)
	f("", 0, false)
}

// A printed amount must read as the same amount again.
func TestAmountsSurviveBeingWrittenAndRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Int64Range(0, (1<<63-1)/10-1).Draw(t, "v")
		if got, err := ParseNano(Nano(v).String()); err != nil || got != Nano(v) {
			t.Fatalf("%d becomes %s becomes %d (%v)", v, Nano(v), got, err)
		}
		for _, n := range []Nano{Nano(v), -Nano(v)} {
			text, _ := n.MarshalText()
			var got Nano
			if err := got.UnmarshalText(text); err != nil || got != n {
				t.Fatalf("%d becomes %s becomes %d (%v)", n, text, got, err)
			}
		}
		if got, err := ParsePrice(Pico(v).PerMillion()); err != nil || got != Pico(v) {
			t.Fatalf("%d becomes %s becomes %d (%v)", v, Pico(v).PerMillion(), got, err)
		}
	})
}

func TestAmountsThatAreRefused(t *testing.T) {
	for _, in := range []string{"", ".", "1.", ".5", "-1", "+1", "1e3", "1,5", "0x1", "NaN", "1_000", " 1",
		"0.0000000001", "9223372036854775807", "99999999999999999999"} {
		if v, err := ParseNano(in); err == nil {
			t.Errorf("%q is taken for %s", in, v)
		}
	}
	if v, err := ParseNano("0.1000000000000"); err != nil || v != 100_000_000 {
		t.Errorf("zeros after the last decimal: %d, %v", v, err)
	}
}

// Nodes write the id of one chain in several ways.
func TestChainIDsAreComparedAsNumbers(t *testing.T) {
	f := func(in string, want ChainID, ok bool) {
		t.Helper()
		if got, fine := ParseChainID(in); got != want || fine != ok {
			t.Errorf("%q: %q, %v", in, got, fine)
		}
	}
	f("1", "1", true)
	f("010", "10", true)
	f("0x01", "1", true)
	f("0X2105", "8453", true)
	f("0x534e5f5345504f4c4941", "393402133025997798000961", true) // above 64 bits
	f("1_0", "1_0", true)
	f("-1", "-1", true)
	f("0x-1", "0x-1", true)
	f("5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d", "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d", true)
	f("", "", false)
	f(strings.Repeat("1", maxChainID+1), "", false)
}

func TestSuggestions(t *testing.T) {
	keys := []string{"base_url", "key", "models", "name", "listen"}
	f := func(got, want string) {
		t.Helper()
		if s := suggest(got, keys); s != want {
			t.Errorf("%s: %q, want %q", got, s, want)
		}
	}
	f("modles", "models")
	f("lisen", "listen")
	f("Listen", "listen")
	f("url", "base_url")
	f("api_key", "key")
	f("zebra", "")
	f("x", "")
}

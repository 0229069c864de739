package media

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func FuzzLink(f *testing.F) {
	l := NewLinks(bytes.Repeat([]byte{7}, 32))
	now := time.Unix(1_800_000_000, 0)
	exp, sig, _ := strings.Cut(strings.TrimPrefix(l.Query(someID, Download, now.Add(time.Hour)), "exp="), "&sig=")
	f.Add(someID, exp, sig)
	f.Add(someID, "0"+exp, sig)
	f.Add(someID, "", "")
	f.Add("../../../etc", "99999999999999999999", "p")
	f.Fuzz(func(t *testing.T, id, e, s string) {
		kind, at, err := l.Check(id, []byte(e), []byte(s), now)
		if err == nil && (id != someID || e != exp || s != sig || kind != Download || !at.Equal(now.Add(time.Hour))) {
			t.Errorf("a forged link is good: %q %q %q", id, e, s)
		}
	})
}

// A link has one spelling: with any single byte changed, missing or doubled, it is not
// one of ours. The second is chosen so that its number ends in each digit.
func TestALinkHasOneSpelling(t *testing.T) {
	l := NewLinks(bytes.Repeat([]byte{7}, 32))
	now := time.Unix(1_800_000_000, 0)
	tries := 0
	forge := func(id, exp, sig string) {
		tries++
		if kind, at, err := l.Check(id, []byte(exp), []byte(sig), now); !errors.Is(err, ErrForged) {
			t.Errorf("%s %s %s is of kind %c until %s: %v", id, exp, sig, kind, at, err)
		}
	}
	for digit := range 10 {
		exp, sig, _ := strings.Cut(strings.TrimPrefix(l.Query(someID, Plain,
			now.Add(time.Hour+time.Duration(digit)*time.Second)), "exp="), "&sig=")
		if _, _, err := l.Check(someID, []byte(exp), []byte(sig), now); err != nil {
			t.Fatal(err)
		}
		mutate := func(text string, forged func(string)) {
			for at := range text {
				for c := range 256 {
					if byte(c) != text[at] {
						forged(text[:at] + string([]byte{byte(c)}) + text[at+1:])
					}
				}
				forged(text[:at] + text[at+1:])
				forged(text[:at+1] + text[at:])
			}
		}
		mutate(exp, func(exp string) { forge(someID, exp, sig) })
		mutate(sig, func(sig string) { forge(someID, exp, sig) })
		mutate(someID, func(id string) { forge(id, exp, sig) })
	}
	if tries < 100_000 {
		t.Errorf("only %d forgings", tries)
	}
}

func TestLinksExpireToTheSecond(t *testing.T) {
	l := NewLinks(bytes.Repeat([]byte{7}, 32))
	end := time.Unix(1_800_000_000, 0)
	exp, sig, _ := strings.Cut(strings.TrimPrefix(l.Query(someID, Plain, end), "exp="), "&sig=")
	if _, _, err := l.Check(someID, []byte(exp), []byte(sig), end.Add(-time.Nanosecond)); err != nil {
		t.Error(err)
	}
	if _, _, err := l.Check(someID, []byte(exp), []byte(sig), end); !errors.Is(err, ErrExpired) {
		t.Error(err)
	}
}

func FuzzRange(f *testing.F) {
	for _, h := range []string{"bytes=0-0", "bytes=-1", "bytes=5-", "bytes=9-3", "bytes=0-1,2-3", "bytes=-", "bytes=--1",
		"bytes=18446744073709551615-18446744073709551616", "BYTES= 1 - 2 "} {
		f.Add(h, int64(1000))
	}
	f.Fuzz(func(t *testing.T, header string, size int64) {
		size &= 1<<40 - 1
		from, length, ok := ParseRange([]byte(header), size)
		if ok && length >= 0 && (from < 0 || length == 0 || from+length > size) {
			t.Errorf("%q of %d: %d bytes from %d", header, size, length, from)
		}
	})
}

// Delivered bytes are known one by one, in whatever order they were delivered.
func TestSpansKnowTheirGaps(t *testing.T) {
	for range 300 {
		var s Spans
		had, size := make([]bool, 60), int64(60)
		for range 40 {
			from := rand.Int64N(size)
			n := rand.Int64N(size-from) + 1
			n = min(n, 8)
			s.Add(from, n)
			whole := true
			for i := range had {
				had[i] = had[i] || int64(i) >= from && int64(i) < from+n
				whole = whole && had[i]
			}
			if s.Whole(size) != whole {
				t.Fatalf("whole is %t, %v", s.Whole(size), s.list)
			}
		}
	}
	// Pieces without end take no memory without end, and the last of them is missed.
	var s Spans
	for i := range int64(10_000) {
		s.Add(3*i, 1)
	}
	if len(s.list) > mostSpans || s.Whole(30_001) {
		t.Errorf("%d pieces, whole %t", len(s.list), s.Whole(30_001))
	}
}

func TestTypesAndHowFilesBegin(t *testing.T) {
	for head, types := range map[string]string{
		"RIFF\x00\x00\x00\x00WAVEfmt ":             "audio/wav",
		"fLaC\x00\x00\x00\x22":                     "audio/flac",
		"OggS\x00\x02":                             "audio/ogg audio/opus",
		"\x00\x00\x00\x18ftypisom":                 "video/mp4 audio/mp4 video/quicktime audio/aac",
		"\x1a\x45\xdf\xa3\x01\x00\x00":             "video/webm",
		"\xff\xfb\x90\x64\x00":                     "audio/mpeg",
		"ID3\x04\x00\x00\x00\x00\x0f\x76":          "audio/mpeg audio/mp3 audio/aac audio/flac audio/x-flac",
		"\xff\xf1\x50\x80\x02\x1f\xfc":             "audio/aac",
		"<!doctype html>":                          "",
		`{"error":"no"}`:                           "",
		"\xff\xff\xff\xff\xff\xff\xff\xff":         "",
		"\x00\x01\x02\x03\xfa\xfb\xfc\xfd\x00\x00": "audio/pcm",
	} {
		for _, f := range append(forms, form{types: rawTypes}) {
			for _, typ := range f.types[:1] {
				want := strings.Contains(" "+types+" ", " "+typ+" ")
				if typ == "audio/pcm" {
					want = !isText([]byte(head))
				}
				if got := suits([]byte(head), typ); got != want {
					t.Errorf("%q as %s: %t", head, typ, got)
				}
			}
		}
		for typ := range strings.FieldsSeq(types) {
			if !suits([]byte(head), typ+"; rate=44100") {
				t.Errorf("%q is refused as %s", head, typ)
			}
		}
	}
}

// Nodes share the delivered spans through the store.
func FuzzSpans(f *testing.F) {
	f.Add([]byte{200, 1, 0, 5, 3, 7}, int64(4), int64(9))
	f.Add([]byte{0}, int64(0), int64(1))
	f.Add([]byte{5, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 2}, int64(0), int64(1))
	f.Fuzz(func(t *testing.T, b []byte, from, n int64) {
		s := ReadSpans(b)
		s.Add(from&0xffff, n&0xffff)
		again := ReadSpans(s.Append(nil))
		if again.sent != s.sent || !slices.Equal(again.list, s.list) || len(s.list) > mostSpans {
			t.Errorf("%v becomes %v", s, again)
		}
		for i := range s.list {
			if one := s.list[i]; one.from >= one.to || i > 0 && s.list[i-1].to >= one.from {
				t.Errorf("%v is not in order", s.list)
			}
		}
	})
}

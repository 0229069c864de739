package audio

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"farebox/bench/upstream/sound"
)

// Pieces end where sentences do, in any script, and together are the text.
func TestTextIsCutBetweenSentences(t *testing.T) {
	for text, want := range map[string][]string{
		"One. Two is 3.14! Three?":       {"One. ", "Two is 3.14! ", "Three?"},
		"“Stop.” He left… Then (quiet.)": {"“Stop.” ", "He left… ", "Then (quiet.)"},
		"今日は。元気ですか？はい！":                  {"今日は。", "元気ですか？", "はい！"},
		"no end at all":                  {"no end at all"},
		"line\nline\n\n":                 {"line\n", "line\n\n"},
	} {
		var got []string
		for rest := []byte(text); len(rest) > 0; {
			n := cutSentence(rest, 1, 100)
			got = append(got, string(rest[:n]))
			rest = rest[n:]
		}
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%q is cut into %q, want %q", text, got, want)
		}
	}
}

func FuzzCutSentence(f *testing.F) {
	f.Add([]byte("One. Two!"), 1, 10)
	f.Add([]byte(strings.Repeat("e\u0301", 50)), 5, 10)
	f.Add([]byte(strings.Repeat("word ", 50)), 5, 12)
	f.Fuzz(func(t *testing.T, text []byte, least, most int) {
		if !utf8.Valid(text) || least < 1 || most < least || most > 1000 {
			return
		}
		var all []byte
		for rest := text; len(rest) > 0; {
			n := cutSentence(rest, least, most)
			if n <= 0 || n > len(rest) || !utf8.Valid(rest[:n]) || utf8.RuneCount(rest[:n]) > 2*most+1 {
				t.Fatalf("%q is cut at %d", rest, n)
			}
			all, rest = append(all, rest[:n]...), rest[n:]
		}
		if !bytes.Equal(all, text) {
			t.Fatal("the pieces are not the text")
		}
	})
}

// The head of a piece may be anything that an upstream sends.
func FuzzOpening(f *testing.F) {
	for _, format := range []string{"mp3", "wav", "aac", "pcm"} {
		f.Add(format, sound.Bytes(format, 100_000_000))
	}
	f.Add("mp3", []byte("ID3\x04\x00\x00\x7f\x7f\x7f\x7f"))
	f.Add("wav", []byte("RIFF\xff\xff\xff\xffWAVEdata\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, format string, head []byte) {
		r := series{on: true, first: true, piece: Speech{Format: format}}
		for i := 0; i < len(head); i += 7 {
			if _, stop := r.pass(head[i:min(len(head), i+7)]); stop {
				return
			}
		}
		sniff(format, nil, head, true)
		sniffEvents([]byte("text/event-stream"), head, true)
	})
}

// "My answer began with {"error": …} as loud clicks."
func TestAnAnswerIsKnownByItsFirstBytes(t *testing.T) {
	for format := range map[string]bool{"mp3": true, "opus": true, "aac": true, "flac": true, "wav": true, "pcm": true} {
		clip := sound.Bytes(format, 200_000_000)
		for _, kind := range []string{"", "audio/mpeg", "application/octet-stream"} {
			if got := sniff(format, []byte(kind), clip[:min(len(clip), 100)], false); got != sounds {
				t.Errorf("%s is taken for %d", format, got)
			}
		}
		for _, text := range []string{`{"error":{"message":"x"}}`, "<!doctype html><html>", " \n[1,2,3,4,5,6,7,8]"} {
			if got := sniff(format, []byte("audio/mpeg"), []byte(text), true); got != speaks {
				t.Errorf("%q as %s is taken for %d", text, format, got)
			}
		}
		if got := sniff(format, []byte("application/json; charset=utf-8"), clip, false); got != speaks {
			t.Errorf("JSON as %s is taken for %d", format, got)
		}
		if got := sniff(format, nil, nil, true); got != strange {
			t.Errorf("nothing as %s is taken for %d", format, got)
		}
		if got := sniff(format, nil, clip[:1], false); got != unclear {
			t.Errorf("a byte of %s is taken for %d", format, got)
		}
	}
}

package openai

import (
	"strings"
	"testing"

	"farebox/providers/chat/dialect"
)

// FuzzMeter holds a stream that came in pieces against the same stream at
// once: same bytes to the client, same usage, same end. The relayed bytes of a
// stream in which nothing had to change are those that came.
func FuzzMeter(f *testing.F) {
	for _, sc := range splitCases() {
		if strings.HasSuffix(sc.name, "true, mode 0") {
			f.Add([]byte(sc.input), uint16(37), uint8(0))
			f.Add([]byte(sc.input), uint16(1), uint8(0xff))
		}
	}
	f.Add([]byte("data: {\r\rdata\n\r\n:\r\n\ndata:[DONE]\r\r\n"), uint16(2), uint8(1))
	f.Add([]byte("data: {\"usage\":{\"prompt_tokens\":1},\"choices\":[]}\r\n\r\n\n\r\r\n"), uint16(3), uint8(2))
	f.Fuzz(func(t *testing.T, input []byte, piece uint16, mode uint8) {
		sc := streamCase{input: string(input), complete: mode&1 == 0, hide: mode&2 == 2, strip: mode&4 == 4,
			choices: int64(1 + mode>>6)}
		if mode&8 == 8 {
			sc.upstream = "u"
		}
		want := sc.run(t)
		var cuts []int
		step := int(piece)%97 + 1
		for at := step; at < len(input); at += step {
			cuts = append(cuts, at)
			step = step*31%97 + 1
		}
		got := sc.run(t, cuts...)
		if len(input) <= 32<<10 && got != want {
			t.Fatalf("%q\nin pieces %v:\n%+v\nat once:\n%+v", input, cuts, got, want)
		}
		if len(input) <= 4<<10 {
			every := make([]int, len(input))
			for i := range every {
				every[i] = i
			}
			sc.forgetful = true
			if got := sc.run(t, every...); got != want {
				t.Fatalf("%q\nevery event in full:\n%+v\nat once:\n%+v", input, got, want)
			}
		}
		if mode&0xe == 0 && !want.failed {
			out := strings.TrimSuffix(want.out, done)
			if told := `"choices":[],"usage":` + string(dialect.AppendUsage(nil, &want.usage)) +
				"}\n\n"; !want.usage.Seen && strings.Contains(want.out, told) {
				// The upstream did not report the usage to the client.
				head, tail, _ := strings.Cut(want.out, told)
				out = strings.TrimSuffix(head[:strings.LastIndex(head, "\ndata: ")+1]+tail, done)
			}
			if !strings.HasPrefix(sc.input, strings.TrimRight(out, "\n")) {
				t.Fatalf("%q became %q", input, want.out)
			}
		}
		if u := want.usage; u.Prompt < 0 || u.Completion < 0 || u.Cached+u.CacheWrite > u.Prompt ||
			u.Reasoning > u.Completion {
			t.Fatalf("impossible usage %+v", u)
		}
	})
}

// FuzzBody does the same for whole answers.
func FuzzBody(f *testing.F) {
	for _, body := range []string{
		answer("the <think>x</think>small", `,"usage":`+plainUsage),
		answer(`\\\"\\`, `,"x_groq":{"usage":{"prompt_tokens":3}}`),
		`{"model":"\u0075","choices":[{"message":{"content":"x","tool_calls":[{"function":{"name":"n","arguments":"{}"}}]},"usage":{"prompt_tokens":-1}}]}`,
		`[{"usage":{}}]`, `{"usage":{"prompt_tokens":1}}}`,
	} {
		f.Add([]byte(body), uint16(7), uint8(0))
		f.Add([]byte(body), uint16(1), uint8(3))
	}
	f.Fuzz(func(t *testing.T, input []byte, piece uint16, mode uint8) {
		c := chatOf(t, prompt)
		c.DropThinking = mode&1 == 1
		name := "m"
		if mode&2 == 2 {
			name = "u"
		}
		target := targetOf(c.Model, name, configQuirks)
		one := func(cuts ...int) (string, any) {
			m := NewBodyMeter(c, target)
			defer m.Release()
			out := run(m, string(input), true, cuts...)
			return out, [2]any{m.Usage(), m.Done()}
		}
		want, wantUsage := one()
		var cuts []int
		for at := int(piece)%97 + 1; at < len(input); at += int(piece)%97 + 1 {
			cuts = append(cuts, at)
		}
		if got, usage := one(cuts...); got != want || usage != wantUsage {
			t.Fatalf("%q\nin pieces %q %v\nat once %q %v", input, got, usage, want, wantUsage)
		}
		if mode&3 == 0 && want != string(input) {
			t.Fatalf("%q became %q", input, want)
		}
	})
}

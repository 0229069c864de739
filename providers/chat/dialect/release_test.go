package dialect_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"farebox/providers/chat/dialect"
)

// leave gives a stream back in its middle, as a client or a failed attempt leaves it.
func (p *pair) leave(t *testing.T, form string, a *answer, r *rand.Rand) {
	c := asked(t, form, a)
	if c.Form != nil && !p.native {
		c.Client = dialect.OpenForm(c)
	}
	s := p.of.Stream(c, targetOf(c))
	out := s.Pass([]byte(a.body[:r.IntN(len(a.body)+1)]))
	if c.Client != nil {
		out = c.Client.Pass(out)
	}
	switch r.IntN(4) {
	case 0:
		s.Finish(false)
	case 1:
		c.BrokenOff = true
		s.Cut(bytes.Clone(out))
	case 2:
		if c.Client != nil {
			c.Client.Fail(&dialect.Fault{Code: "x", Kind: "y", Message: "z"})
		}
	}
	s.Release()
	if c.Client != nil {
		c.Client.Release()
	}
}

// An answer is the same whatever happened to the one before it in the same memory.
func TestReleasedStreamsCarryNothing(t *testing.T) {
	for _, p := range pairs {
		answers := answersOf(t, p.inputs)
		for _, form := range p.forms {
			t.Run(p.dialect+" "+form, func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(1, uint64(len(form))))
				for i := range answers {
					a := answers[i]
					if a.is("whole") {
						continue
					}
					want := timeless(p.streamed(t, form, &a, len(a.body)))
					for n := range 4 {
						before := answers[r.IntN(len(answers))]
						if n%2 == 0 {
							before.adds = additions
						}
						p.leave(t, form, &before, r)
						if got := timeless(p.streamed(t, form, &a, 1+r.IntN(len(a.body)))); got != want {
							t.Fatalf("%d: got\n%s\nwant\n%s", i+1, got, want)
						}
					}
				}
			})
		}
	}
}

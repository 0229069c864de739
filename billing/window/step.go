package window

// Step is a step of a machine's clock by By ns, which was made in the Gap ns
// before Now.
type Step struct{ By, Now, Gap int64 }

// Move carries a time from before the step along. One from after it, which a
// request noted in the gap, stays; where the two cannot be told apart, the
// request has the advantage. 0 is no time.
func (m *Step) Move(at *int64) {
	switch {
	case *at == 0:
	case m.By > 0 && *at < m.Now-m.Gap:
		*at += m.By
	case m.By < 0 && *at > m.Now:
		*at = max(m.Now, *at+m.By)
	}
}

// Shift carries the window along.
func (w *Window) Shift(m *Step) {
	m.Move(&w.Minute)
	m.Move(&w.Hour)
	m.Move(&w.Tokens)
}

// Shift carries the failures along.
func (f *Failures) Shift(m *Step) {
	m.Move(&f.startNs)
	m.Move(&f.untilNs)
}

// Shift moves the hours back with a clock that was ahead: requests of all the
// time until it is there again would count as of one hour.
func (c *Hours) Shift(m *Step) {
	ahead := c.newest - m.Now/HourNs
	if ahead <= 1 {
		return // it counts as standing still
	}
	was := c.taken
	for h := c.newest - hoursSpan + 1; h <= c.newest; h++ {
		c.taken[(h-ahead)%hoursSpan] = was[h%hoursSpan]
	}
	c.newest -= ahead
}

package dialect

// Meter is the use of an answer so far: its text, the events that it came in, and the usage that
// its upstream reports. It is a part of every Stream.
type Meter struct {
	Chat   *Chat // that is answered
	Text   Produced
	Chunks int64 // events with data
	Last   Usage // that the upstream reported
}

// Produced is Stream's.
func (m *Meter) Produced() int64 {
	claimed := m.Last.Completion
	if m.Chat.Cap > 0 {
		claimed = min(claimed, m.Chat.Cap)
	}
	return max(m.Text.Estimate(), m.Chunks, claimed)
}

// Exceeds is Stream's.
func (m *Meter) Exceeds(most int64) bool {
	return m.Chunks > most || m.Text.Exceeds(most, m.Chat.Vocabulary())
}

// Settled is the charged usage. final says that the last usage is that of the whole answer.
func (m *Meter) Settled(final bool) Usage { return Settle(m.Last, final, &m.Text, m.Chat) }

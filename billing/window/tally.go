package window

// Tally counts the requests of a key in the calendar minute and hour, for the
// answer about its use; nothing is decided on it.
type Tally struct {
	minute           int32
	inMinute, inHour int32
}

// Add counts one event at a time in nanoseconds.
func (t *Tally) Add(nowNs int64) {
	if minute := int32(nowNs / MinuteNs); minute != t.minute {
		if minute/60 != t.minute/60 {
			t.inHour = 0
		}
		t.minute, t.inMinute = minute, 0
	}
	t.inMinute++
	t.inHour++
}

// At returns the counts in the minute and hour of a time.
func (t *Tally) At(nowNs int64) (inMinute, inHour int64) {
	minute := int32(nowNs / MinuteNs)
	if t.minute == minute {
		inMinute = int64(t.inMinute)
	}
	if t.minute/60 == minute/60 {
		inHour = int64(t.inHour)
	}
	return inMinute, inHour
}

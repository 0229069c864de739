package overspend

import "time"

// Leaver is a way in which a client leaves before its answer ends.
type Leaver struct {
	Name string
	when moment
	// after is how long it waits at that moment before it leaves.
	after time.Duration
	bytes int64 // of the body, for atBytes
	how   goodbye
	// words slow the upstream down so that the moment exists; slowWhole: those for answers
	// that are not streams.
	words     string
	slowWhole string
	// streams: it exists for streams only.
	streams bool
	crowd   bool // the places for answers that are read on are full before
}

type moment uint8

const (
	never       moment = iota // it stays
	beforeHead                // after its request was written
	atBytes                   // after some bytes of the body
	beforeUsage               // after finish_reason, before the usage
)

type goodbye uint8

const (
	byFin  goodbye = iota // close
	byRst                 // reset
	byHalf                // the sending side only; it still reads
)

const (
	headWait  = 15 * time.Millisecond
	someBytes = 3000
)

// Leavers are all ways to leave, first the client that stays.
var Leavers = []Leaver{
	{Name: "stays"},
	{Name: "head", when: beforeHead, after: headWait, words: "delay_ms=60", slowWhole: "think_ms=60"},
	{Name: "head_reset", when: beforeHead, after: headWait, how: byRst, words: "delay_ms=60", slowWhole: "think_ms=60"},
	{Name: "head_half", when: beforeHead, after: headWait, how: byHalf, words: "delay_ms=60", slowWhole: "think_ms=60"},
	{Name: "head_run_on", when: beforeHead, after: headWait, words: "delay_ms=60", slowWhole: "think_ms=60 run_on=1"},
	{Name: "bytes", when: atBytes, bytes: someBytes, words: "gap_ms=1", streams: true},
	{Name: "bytes_reset", when: atBytes, bytes: someBytes, how: byRst, words: "gap_ms=1", streams: true},
	{Name: "bytes_half", when: atBytes, bytes: someBytes, how: byHalf, words: "gap_ms=1", streams: true},
	{Name: "before_usage", when: beforeUsage, words: "gap_ms=1", streams: true},
	{Name: "before_usage_reset", when: beforeUsage, how: byRst, words: "gap_ms=1", streams: true},
	{Name: "crowded", when: beforeHead, after: headWait, words: "delay_ms=60", slowWhole: "think_ms=60", crowd: true},
}

// scenario is the upstream's scenario for this client; ok: it exists there.
func (l *Leaver) scenario(e *Endpoint) (words string, ok bool) {
	if l.streams && !e.Stream {
		return "", false
	}
	if e.job() && l.crowd {
		return "", false // no answer is read on: a job is finished although its client leaves
	}
	if !e.Stream && !e.job() && l.slowWhole != "" {
		return l.slowWhole, true
	}
	return l.words, true
}

// LeaversNamed finds leavers by name; no names: all.
func LeaversNamed(names []string) ([]Leaver, error) {
	return named("leaver", names, Leavers, func(l Leaver) string { return l.Name })
}

package journal

import "os"

// Halt ends the background work. Nothing else is done: with that alone a
// test leaves the journal as a process does that is killed.
func (j *Journal) Halt() { j.work.Close() }

// Fail lets the journal meet a directory in which nothing can be renamed, or a
// disk on which nothing can be made, until it is called with nil: for tests.
func (j *Journal) Fail(rename, prepare error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rename, j.prepare = os.Rename, createSegment
	if rename != nil {
		j.rename = func(string, string) error { return rename }
	}
	if prepare != nil {
		j.prepare = func(string, int) (*segment, error) { return nil, prepare }
	}
}

// Space is the journal's use of its segments, in bytes.
type Space struct {
	Left     int  // in the segment that is written
	Free     int  // for certain
	Reserved int  // for open holds
	Prepared bool // the next segment
	Named    bool // the segment that is written can be found by its name
}

// Space gives the figures of this moment; there is a segment.
func (j *Journal) Space() Space {
	j.mu.Lock()
	defer j.mu.Unlock()
	return Space{Left: j.size - j.seg.off, Free: j.free(), Reserved: j.reserved, Prepared: j.next != nil,
		Named: j.unnamed == nil}
}

package journal

import (
	"errors"
	"fmt"
	"time"

	"farebox/billing/disk"
)

// syncer puts appended records on disk, at its own pace.
func (j *Journal) syncer() {
	pace := time.NewTimer(0)
	defer pace.Stop()
	var last time.Time
	for {
		select {
		case <-j.work.Closing():
			j.sync()
			return
		case <-j.wake:
		}
		if !j.Power {
			pace.Reset(max(syncSoon, time.Until(last.Add(syncApart))))
			select {
			case <-j.work.Closing():
			case <-pace.C:
			}
		}
		last = time.Now()
		j.sync()
	}
}

// sync makes everything that was appended so far durable. An error of the disk
// ends the process: pages of a failed sync are gone, and trying again would
// report success (notes: 2.6, P6).
func (j *Journal) sync() {
	j.mu.Lock()
	target, seg, retired, off, name := j.seq, j.seg, j.retired, 0, ""
	if seg != nil {
		off, name = seg.off, seg.path
	}
	j.retired, j.dirty = nil, false
	j.mu.Unlock()
	if seg == nil || target == j.synced.Load() {
		return
	}
	wrote := seg.pass(off)
	err := j.syncSegments(seg, name, retired)
	seg.prepareNext(wrote)
	if err == nil {
		err = seg.mark(target)
	}
	if err != nil {
		panic(fmt.Sprintf("cannot put the journal in %s on disk: %v", j.dir, err))
	}
	j.syncMu.Lock()
	j.synced.Store(target)
	j.syncMu.Unlock()
	j.syncOK.Broadcast()
}

func (j *Journal) syncSegments(seg *segment, name string, retired []*segment) error {
	for _, s := range retired {
		s.pass(j.size)
		if err := errors.Join(s.mem.sync(), s.closeFile()); err != nil {
			return err
		}
	}
	if seg.seen != name {
		if err := disk.Sync(j.dir); err != nil {
			return err
		}
		seg.seen = name
	}
	return seg.mem.sync()
}

// Wait returns when seq is on disk.
func (j *Journal) Wait(seq uint64) {
	if j.synced.Load() >= seq {
		return
	}
	j.syncMu.Lock()
	for j.synced.Load() < seq {
		j.syncOK.Wait()
	}
	j.syncMu.Unlock()
}

// Flush makes everything appended so far durable and gives its end.
func (j *Journal) Flush() uint64 {
	j.mu.Lock()
	seq := j.seq
	j.mu.Unlock()
	j.Wait(seq)
	return seq
}

// Synced is up to which record the journal is on disk.
func (j *Journal) Synced() uint64 { return j.synced.Load() }

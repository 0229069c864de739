package media

import (
	"bytes"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"farebox/bench/servers"
	"farebox/tests/rig"
)

// An account that fetches nothing cannot fill the store.
func TestAnAccountHasSoMuchRoom(t *testing.T) {
	t.Parallel()
	p := start(t, briefJobs+fmt.Sprintf("media: { dir: %q, max_bytes: 1MB, account_bytes: 1MB, total_bytes: 2MB, free_bytes: 0, "+
		"links: true }", filepath.Join(t.TempDir(), "media")))
	order := `{"model":"song","prompt":"[[sim polls=1]] x","duration_seconds":8}`
	var kept []job
	for len(kept) < 40 {
		var j job
		status, _, answer := p.Post("/audio/queue", p.key, order)
		if status == 429 && strings.Contains(string(answer), "reached its limit of stored media") {
			break
		}
		j, _ = p.trackOf(t, answer, status)
		kept = append(kept, j)
	}
	if len(kept) < 2 || len(kept) >= 40 {
		t.Fatalf("it keeps %d tracks", len(kept))
	}
	p.NewAccount("b", "100") // others have room of their own
	if _, link := p.track(t, p.Key("b")); link == "" {
		t.Error("another account has no room")
	}
	for _, j := range kept[:2] {
		p.Must(200, "POST", "/audio/complete", p.key, fmt.Sprintf(`{"model":"song","queue_id":%q}`, j.ID), nil)
	}
	if _, link := p.track(t, p.key); link == "" {
		t.Error("it has no room again")
	}
}

// "Twenty tracks came at once, and each was told that it fits." All of them together have
// so much room, to the byte; tracks without room are refunded.
func TestAllResultsTogetherHaveSoMuchRoom(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "media")
	p := start(t, briefJobs+fmt.Sprintf("media: { dir: %q, max_bytes: 1MB, account_bytes: 1MB, total_bytes: 1MB, free_bytes: 0, "+
		"links: true }", dir))
	var ids []string
	for range 19 { // of 64 kB each
		var j job
		p.Must(200, "POST", "/audio/queue", p.key, `{"model":"song","prompt":"[[sim delay_ms=500]] x","duration_seconds":8}`, &j)
		ids = append(ids, j.ID)
	}
	kept := 0
	for _, id := range ids {
		if body := p.await(t, "audio", "song", id, p.key); bytes.HasPrefix(body, []byte(`{"status":"completed"`)) {
			kept++
		}
	}
	var size int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				size += info.Size()
			}
		}
		return nil
	})
	if size > 1<<20 || kept < 2 || kept == len(ids) {
		t.Errorf("%d of %d tracks are kept, %d bytes", kept, len(ids), size)
	}
	left := rig.Money(100_000_000_000 - 80_000_000*int64(kept))
	rig.Await(t, "jobs that did not fit are refunded", func() bool { return p.Settled()["a"].USD == left })
}

// trackOf waits for a track that was ordered.
func (p *place) trackOf(t *testing.T, answer []byte, status int) (j job, body []byte) {
	t.Helper()
	if _, id, ok := bytes.Cut(answer, []byte(`"queue_id":"`)); ok && status == 200 {
		j.ID = string(id[:36])
		return j, p.await(t, "audio", "song", j.ID, p.key)
	}
	t.Fatalf("an order is answered %d %s", status, answer)
	return j, nil
}

// "The disk was full, and my money was gone."
func TestAFullDiskGivesTheMoneyBack(t *testing.T) {
	t.Parallel()
	disk := servers.StartDisk(t, "4m")
	if disk == nil {
		servers.Elsewhere(t, "way to mount a small disk")
	}
	p := start(t, briefJobs+fmt.Sprintf("media: { dir: %q, free_bytes: 0, links: true }", filepath.Join(disk.Dir, "media")))
	p.track(t, p.key)
	disk.Fill(t, 8<<10)
	status, _, answer := p.Post("/audio/queue", p.key, `{"model":"song","prompt":"[[sim polls=1]] x","duration_seconds":8}`)
	_, body := p.trackOf(t, answer, status)
	if !bytes.HasPrefix(body, []byte(`{"status":"failed"`)) {
		t.Errorf("it came to %.300s", body)
	}
	paid := rig.Money(40_000_000) // of the first track alone
	rig.Await(t, "it is given back", func() bool { return p.Settled()["a"].USD == rig.Money(100_000_000_000)-paid })
	disk.Free(t)
	p.track(t, p.key)
	if log := p.Log(); !strings.Contains(log, "make room on the disk") {
		t.Error("the log does not say what to do")
	}
}

package media

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"farebox/bench/servers"
	"farebox/config/asyncjob"
)

const writerDir = "FAREBOX_TEST_MEDIA_WRITER"

// TestMain is also the process that is killed while it writes.
func TestMain(m *testing.M) {
	if dir := os.Getenv(writerDir); dir != "" {
		l := openLocal(dir, 0)
		fmt.Println("ready")
		for i := 0; ; i++ {
			id := fmt.Sprintf("killed-%04d", i%4)
			if _, err := l.Put(context.Background(), id, bytes.NewReader(wave(1<<20+i)), "audio/wav", 1<<30); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
		}
	}
	os.Exit(m.Run())
}

// "After the power of the container went, customers downloaded half a video."
func TestAProcessThatIsKilledLeavesNothingHalf(t *testing.T) {
	t.Parallel()
	killWriters(t, 8)
}

func TestLongManyProcessesThatAreKilled(t *testing.T) { killWriters(t, 200) }

// killWriters kills processes one after the other at random moments of their writing.
func killWriters(t *testing.T, rounds int) {
	dir := t.TempDir()
	for range rounds {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), writerDir+"="+dir)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ready := make([]byte, 6)
		if _, err := io.ReadFull(out, ready); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rand.N(30 * time.Millisecond))
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	l := openLocal(dir, 0)
	if err := l.List(t.Context(), func(f File) bool {
		got := read(t, l, f.ID, 0, -1)
		if len(got) < 1<<20 || !bytes.Equal(got, wave(len(got))) {
			t.Errorf("%s has %d bytes", f.ID, len(got))
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if err := l.clear(time.Now().Add(2 * Grace)); err != nil {
		t.Fatal(err)
	}
	for _, path := range everyFile(t, dir) {
		if strings.Contains(path, incoming) {
			t.Errorf("leftover: %s", path)
		}
	}
}

func TestAFullDiskSaysSo(t *testing.T) {
	disk := servers.StartDisk(t, "4m")
	if disk == nil {
		servers.Elsewhere(t, "way to mount a small disk")
	}
	l := openLocal(disk.Dir+"/media", 0)
	want := wave(1 << 20)
	if _, err := l.Put(t.Context(), someID, bytes.NewReader(want), "audio/wav", 1<<30); err != nil {
		t.Fatal(err)
	}
	_, err := l.Put(t.Context(), someID, bytes.NewReader(wave(8<<20)), "audio/wav", 1<<30)
	if !errors.Is(err, asyncjob.ErrFull) || !strings.Contains(err.Error(), "make room on the disk of "+l.dir) {
		t.Errorf("Put says %v", err)
	}
	if got := read(t, l, someID, 0, -1); !bytes.Equal(got, want) {
		t.Errorf("the earlier file has %d bytes", len(got))
	}
	if left := everyFile(t, l.dir); len(left) != 1 {
		t.Errorf("leftovers: %v", left)
	}
}

package container_test

import (
	"testing"

	"farebox/providers/audio/container"
)

// Whatever a file is, reading it ends, and it is not longer than it can be.
func FuzzRead(f *testing.F) {
	f.Add(wav(8000, 4, 1, 2, 3, 4))
	f.Add(box("moov", box("trak", box("mdia"))))
	f.Fuzz(func(t *testing.T, file []byte) {
		if d := container.Glance(file, int64(len(file))); d < 0 {
			t.Errorf("at a glance it is %s", d)
		}
		i, err := container.Read(file)
		if err != nil {
			return
		}
		if i.Length < 0 || i.Most < 0 || i.Says < 0 || i.Length > i.Bound() {
			t.Errorf("%+v", i)
		}
	})
}

package listen

import (
	"encoding/binary"
	"strings"
	"testing"
)

func FuzzPreface(f *testing.F) {
	add := func(command, family byte, body ...byte) {
		b := append([]byte(prefaceSign), command, family)
		f.Add(append(binary.BigEndian.AppendUint16(b, uint16(len(body))), body...))
	}
	add(0x21, 0x11, 192, 0, 2, 7, 127, 0, 0, 1, 4, 210, 0, 80)
	add(0x20, 0x00)
	add(0x21, 0x21, make([]byte, 36)...)
	f.Fuzz(func(t *testing.T, b []byte) {
		r := strings.NewReader(string(b))
		from, err := Preface(r)
		if taken := len(b) - r.Len(); err == nil && taken != prefaceFixed+int(binary.BigEndian.Uint16(b[14:])) {
			t.Fatalf("%d bytes taken, %v", taken, from)
		}
	})
}

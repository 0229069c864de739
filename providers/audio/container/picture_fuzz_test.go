package container

import "testing"

// FuzzPictures: a codec's picture size is a possible one, or zero.
func FuzzPictures(f *testing.F) {
	f.Add([]byte("\x01\x64\x00\x0a\xff\xe1\x00\x07\x67\x64\x00\x0a\xac\xb2\x00"))
	f.Add([]byte("\x81\x00\x0c\x00\x0a\x0a\x00\x00\x00\x02\xaf\xff\x9b\x5f\x30\x08"))
	f.Add([]byte("\x10\x02\x00\x9d\x01\x2a\x5a\x00\x32\x00"))
	f.Add([]byte("\x82\x49\x83\x42\x00\x05\x90\x03\x10"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, read := range []func([]byte) size{readAVC, readHEVC, readAV1, vp8Size, vp9Size, sizeIn} {
			if s := read(b); s != s.sane() {
				t.Errorf("%+v", s)
			}
		}
	})
}

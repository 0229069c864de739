package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
)

// Picture is one of a character.
type Picture struct {
	Type   string // image/png, image/jpeg or image/webp, as its content says
	Data   []byte
	Digest string // of Data, for names that caches may keep for good
}

// pictureEnds are the extensions of pictures, with their media types.
var pictureEnds = map[string]string{".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg",
	".webp": "image/webp"}

// newPicture detects a file's type from its bytes, whatever its name says: a page with scripts is
// refused.
func newPicture(data []byte) (*Picture, error) {
	kind := http.DetectContentType(data)
	for _, known := range pictureEnds {
		if kind == known {
			sum := sha256.Sum256(data)
			return &Picture{Type: kind, Data: data, Digest: hex.EncodeToString(sum[:8])}, nil
		}
	}
	return nil, fmt.Errorf("its content is not PNG, JPEG or WebP")
}

// End is how the name of such a picture ends.
func (p *Picture) End() string {
	switch p.Type {
	case "image/jpeg":
		return ".jpg"
	case "image/webp":
		return ".webp"
	}
	return ".png"
}

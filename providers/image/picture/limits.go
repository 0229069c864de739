package picture

// The limits of an input image (addendum 8).
const (
	MinPixels = 65_536
	MaxPixels = 33_177_600
	// MaxSize is the first size in bytes that is too large.
	MaxSize = 25 << 20
)

// Refusal is why an image is not accepted. Text is for the client and begins
// with a verb: "is cut off".
type Refusal struct {
	Status int    // 400 or 422
	Code   string // CORRUPTED_IMAGE, IMAGE_TOO_SMALL, IMAGE_TOO_LARGE
	Text   string
}

func (r *Refusal) Error() string { return r.Text }

func corrupted(why string) *Refusal {
	return &Refusal{Status: 400, Code: "CORRUPTED_IMAGE", Text: "The image cannot be decoded: " + why + "."}
}

// Accept refuses an input image that exceeds the limits.
func (h Header) Accept() error {
	switch {
	case h.Frames > 1:
		return corrupted("it is an animation; send a single frame")
	case h.Size >= MaxSize:
		return &Refusal{422, "IMAGE_TOO_LARGE", "The image is too large: it must have less than 25 MB."}
	case h.Width > maxSide || h.Height > maxSide || h.Pixels() > MaxPixels:
		return &Refusal{422, "IMAGE_TOO_LARGE",
			"The image is too large: width x height must be at most 33177600 pixels, no side above 65535."}
	case h.Pixels() < MinPixels:
		return &Refusal{400, "IMAGE_TOO_SMALL", "The image is too small: width x height must be at least 65536 pixels."}
	}
	return nil
}

package image

import (
	"farebox/config/fair"
	"farebox/providers/filebody"
	"farebox/providers/image/picture"
)

// Kind is the operation on images.
type Kind uint8

// The kinds, each with the endpoint it serves (addendum 8).
const (
	Generate         Kind = iota + 1 // text to image: 8.1, 8.2
	Edit                             // prompt and 1 to n images to one: 8.5, 8.6
	Upscale                          // 8.4
	RemoveBackground                 // 8.7
)

var kindNames = [...]string{"", "generate", "edit", "upscale", "background-remove"}

// String is the kind's name, for logs.
func (k Kind) String() string { return kindNames[k] }

// Maybe is a value that a client may have left out.
type Maybe[T any] struct {
	V   T
	Set bool
}

// Some is a value that is there.
func Some[T any](v T) Maybe[T] { return Maybe[T]{v, true} }

// Or is the value, or other if it is absent.
func (m Maybe[T]) Or(other T) T {
	if m.Set {
		return m.V
	}
	return other
}

// Job is one image request in our own terms. routes has validated it: ranges
// hold, and options that the model does not support are unset. A dialect sends the
// fields its upstream knows and leaves the others out. Its texts and inputs may
// alias the client's body, which lives until the handler returns.
type Job struct {
	// Stay is asked once, when the client left, from any goroutine: true lets the job go on
	// without a client. nil: it ends.
	Stay func() bool

	// Owner is the customer whose turns its fetches and conversions take.
	Owner fair.Owner

	Kind           Kind
	Prompt         string
	NegativePrompt string

	// Width and Height in pixels, 0: not said. AspectRatio is W:H or auto,
	// Resolution 1K, 2K or 4K, empty: not said. A dialect whose upstream takes
	// only one of the ways makes it from the other (Job.Pixels, Job.Ratio).
	Width, Height int
	AspectRatio   string
	Resolution    string

	Quality  string         // low, medium, high, auto, hd, standard; empty: not said
	Steps    Maybe[int]     // 1 and up
	CFGScale Maybe[float64] // above 0, at most 20
	Seed     Maybe[int64]
	Count    int // images wanted, 1 to 4
	// Style is the preset's name in the catalog of styles (8.3). StyleText is its
	// description in the operator's table; it joins the prompt where the upstream has no
	// presets of its own.
	Style        string
	StyleText    string
	LoraStrength Maybe[int] // 0 to 100

	// Format is the format of the final images, Unknown: as the upstream
	// sends them. Compression is 0 to 100, as output_compression of 8.2.
	Format      picture.Format
	Compression Maybe[int]
	Background  string // transparent, opaque or auto; empty: not said
	Tone        string // vivid or natural (style of 8.2); empty: not said

	SafeMode      bool
	HideWatermark bool
	WebSearch     bool
	// NoPromptThinking asks an upstream of our own kind to optimize prompts
	// without reasoning (disable_prompt_optimization_thinking).
	NoPromptThinking bool
	// AsFile says that the client gets the picture itself, not JSON: a withheld one is a
	// PNG then, whatever the format (addendum 3.7).
	AsFile bool
	// EmbedMetadata puts prompt, model, seed, steps and scale into the images.
	EmbedMetadata bool

	// Upscale (8.4). Scale is 1 to 4.
	Scale             Maybe[float64]
	Enhance           bool
	EnhanceCreativity Maybe[float64] // 0 to 1
	EnhancePrompt     string
	Replication       Maybe[float64] // 0 to 1
	Creativity        Maybe[float64] // 0 to 0.02

	// Inputs are the images to work on; the first is the base.
	Inputs []Input
	// Mask is the part of the base that may change; nil: all of it.
	Mask *Input
	// References are style references (8.1).
	References []Reference

	// ModelID is the catalog's name of the model, for metadata.
	ModelID string
	// ID is the request id that upstreams get.
	ID []byte
}

// Reference is an image whose style to follow, with 0.1 to 1.
type Reference struct {
	Input
	Strength float64
}

// Input is one image of the client: exactly one of Text and Raw is set. Its header was
// read, and it is within the limits (picture.Limits).
type Input struct {
	// Text is padded standard base64, without a data URL's prefix and without
	// JSON escapes: usually a slice of the client's body.
	Text []byte
	// Raw is the file itself: a part of a multipart body, or a download.
	Raw []byte

	Format        picture.Format
	Width, Height int
}

// Size is the length of the file in bytes.
func (i *Input) Size() int64 { return filebody.Size(i.Text, i.Raw) }

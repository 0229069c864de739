package dialect

// Kind is the kind of data that an Event adds to an answer.
type Kind uint8

const (
	// Thought adds Text to the model's thoughts.
	Thought Kind = iota
	// Signature has in Text the data that a client must hand back for the model to go on thinking, a
	// signature or an encrypted thought. It has an entry in reasoning_details. Format names
	// the models that can read it, ID is the call that it is of. Raw is the thought that it signs, which
	// whole answers repeat.
	Signature
	// Call opens a call: its ID, its Name, and in Text arguments that are there already.
	Call
	// Arguments adds Text to a call.
	Arguments
	// NoArguments says that a call has ended without any.
	NoArguments
	// Image has base64 in Text and its media type in Name. Raw is the metered part.
	Image
	// Sources has a list of annotations in Raw, without its brackets.
	Sources
)

// Event is a piece of an answer, whichever dialect it comes in. Texts are escaped as
// in JSON. Its slices are valid until Put returns.
type Event struct {
	Kind   Kind
	Choice int64
	Index  int64 // of a call in its choice, or of an entry in reasoning_details

	ID, Name, Text, Raw []byte
	Type, Format        string // of a Signature's entry
	Signed              bool   // it is the thought_signature, too
}

// Reader reads the events of one dialect and puts their content into an Answer.
type Reader interface {
	// Read reads the event that Answer.Events has found.
	Read()
	// Flush puts the held-back data, before a finish_reason is sent.
	Flush()
	// Count brings Meter.Last up to date.
	Count()
}

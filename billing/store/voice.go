package store

import "fmt"

// VoiceRow is a voice that an account had cloned, until it expires.
type VoiceRow struct {
	ID       string // vv_…
	Account  uint32
	Model    string // its id here
	Upstream string // the operator's label; empty: Sample goes along with each request
	Voice    string // its name there
	// Sample is what it was cloned from, where no upstream keeps it; SampleType its media
	// type.
	Sample     []byte
	SampleType string

	CreatedUs, UsedUs, ExpiresUs int64
}

// VoiceStore keeps cloned voices.
type VoiceStore interface {
	// AddVoice adds a voice, or gives ErrManyVoices.
	AddVoice(r *VoiceRow) error
	// Voice gives a voice of an account that has not expired, or ErrNoRow.
	Voice(account uint32, id string, nowUs int64) (*VoiceRow, error)
	// Voices are those of an account, or of all with 0, newest first, without samples.
	Voices(account uint32) ([]*VoiceRow, error)
	// TouchVoice notes that a voice was used.
	TouchVoice(id string, nowUs int64) error
	// ExpiredVoices gives voices whose time is over, without samples.
	ExpiredVoices(nowUs int64, most int) ([]*VoiceRow, error)
	// DeleteVoice removes a voice.
	DeleteVoice(id string) (done bool, err error)
}

// MaxVoices is how many voices an account may have at a time.
const MaxVoices = 100

// ErrManyVoices is an account with the most voices that it may have.
var ErrManyVoices = fmt.Errorf("the account has %d cloned voices, which is the most: they expire with time", MaxVoices)

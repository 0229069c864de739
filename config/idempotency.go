package config

import "time"

// Idempotency is how requests with an Idempotency-Key are remembered
// (addendum 13). Answers lie beside the ledger, or in Redis when the nodes
// share one.
type Idempotency struct {
	// Window is how long a key stands for its first request. Default 24h, 1m to 168h.
	Window time.Duration `yaml:"window"`
	// Malformed says what a key does that is not 1 to 255 of A-Z a-z 0-9 _ -:
	// reject (default) answers 400, since a client that believes to be
	// protected must hear that it is not; ignore serves the request as one
	// without a key.
	Malformed string `yaml:"malformed"`
	// MaxAnswer is the largest answer that is kept; a repeat of a larger one is
	// refused with 409, never carried out again. Default 16MB, 1KB to 256MB.
	MaxAnswer Size `yaml:"max_answer"`
	// MaxStored bounds what all answers take on disk, or in Redis; without room
	// for an answer only the fact that there was one is kept, as with MaxAnswer.
	// A paid account has at most seven times what stays free, alone seven eighths,
	// and so have all other callers together. What Responses keeps has as much again.
	// Default 4GB, 1MB to 1TB.
	MaxStored Size `yaml:"max_stored"`
	// MaxKeys bounds the keys, in memory about 100 bytes each, or in Redis; they are
	// shared like MaxStored. Requests with a key beyond that get 503. Default
	// 1000000, 1 to 100000000.
	MaxKeys int `yaml:"max_keys"`
	// Unattended is how many requests with a key go on when their client left,
	// so that its retry gets the answer; what is beyond ends as without a key,
	// and its repeat gets 409. Default 256, 0 to 100000. Requests for pictures
	// go on in any case (images.unattended).
	Unattended int `yaml:"unattended"`
}

// DefaultIdempotency is what holds when nothing is written.
func DefaultIdempotency() Idempotency {
	return Idempotency{Window: 24 * time.Hour, Malformed: "reject", MaxAnswer: 16 << 20, MaxStored: 4 << 30,
		MaxKeys: 1_000_000, Unattended: 256}
}

func (v *validator) idempotency() {
	i := v.c.Idempotency
	v.duration("idempotency.window", i.Window, time.Minute, 168*time.Hour)
	v.oneOf("idempotency.malformed", i.Malformed, "reject", "ignore")
	size(v, "idempotency.max_answer", i.MaxAnswer, 1<<10, 256<<20)
	size(v, "idempotency.max_stored", i.MaxStored, 1<<20, 1<<40)
	whole(v, "idempotency.max_keys", i.MaxKeys, 1, 100_000_000)
	whole(v, "idempotency.unattended", i.Unattended, 0, 100_000)
}

package config

import "time"

// Idempotency says how requests with an Idempotency-Key are remembered (addendum 13).
// Answers are kept beside the ledger, or in Redis when nodes share one.
type Idempotency struct {
	// How long a key stands for its first request.
	Window time.Duration `yaml:"window" default:"24h" range:"1m..168h"`
	// A key that is not 1 to 255 of A-Z a-z 0-9 _ -. reject: 400, since the client would not be protected; ignore:
	// serve the request as one without a key.
	Malformed string `yaml:"malformed" default:"reject" oneof:"reject ignore"`
	// Largest answer that is kept. A repeat of a larger one gets 409 and is never carried out again.
	MaxAnswer Size `yaml:"max_answer" default:"16MB" range:"1KB..256MB"`
	// All answers on disk or in Redis. A paid account has at most seven times the rest that stays free; callers
	// without one share the same part. Without room only the fact of the answer is kept.
	MaxStored Size `yaml:"max_stored" default:"4GB" range:"1MB..1024GB"`
	// Keys of all accounts, about 100 bytes of memory each, shared like max_stored. Beyond its share an account gets
	// 503.
	MaxKeys int `yaml:"max_keys" default:"1000000" range:"1..100000000"`
	// Requests with a key that go on when their client disconnects, so that its retry gets the answer.
	Unattended int `yaml:"unattended" default:"256" range:"0..100000"`
}

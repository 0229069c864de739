package config

// Embedding is the Spec of a model that turns text into numbers.
type Embedding struct {
	// Tokenizer for estimates.
	Tokenizer string `yaml:"tokenizer" default:"o200k_base" oneof:"o200k_base cl100k_base"`
	// Among targets of the same priority those that answer much more slowly than the fastest, or fail more, lose their
	// turns until they are fast again; one request in 32 may find out. With false only weights count.
	PreferFast bool `yaml:"prefer_fast" default:"true"`
	// Numbers of a vector. Default: not shown.
	Dimensions int64 `yaml:"embedding_dimensions" range:"0..1000000"`
	// Longest input. Default: not shown.
	MaxInputTokens int64 `yaml:"max_input_tokens" range:"0..100000000"`
	// Clients may ask for fewer dimensions.
	CustomDimensions bool `yaml:"custom_dimensions"`
	// USD per 1,000,000 tokens, at most 6 decimals, 0 to 100000; only input has a price. Required; write price: free
	// if it is free.
	Price *Price `yaml:"price"`
}

func newEmbedding() Spec { return filledSpec(&Embedding{}) }

// Text is true: the model reads, and a key for private text must not pass it by.
func (e *Embedding) Text() bool { return true }

// Free says that `price: free` is written.
func (e *Embedding) Free() bool { return e.Price != nil && e.Price.Free }

func (e *Embedding) dearer(than Spec) bool { return dearer(e.Price, than.(*Embedding).Price) }

func (e *Embedding) complete(*Model) {}

func (e *Embedding) check(v *validator, path string, _ *Model) {
	v.tokenPrice(path+".price", e.Price, false, 0)
}

func (e *Embedding) checkTarget(v *validator, path string, m *Model, t *Target, u *Upstream) {
	v.writes(path, t, u)
	v.cloudName(path, t, u, m.ID)
	v.embeds(path, t, u)
	v.noOptions(path, m, t)
}

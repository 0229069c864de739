package config

// Embedding is the Spec of a model that turns text into numbers.
type Embedding struct {
	Tokenizer        string `yaml:"tokenizer"` // as of Chat
	Dimensions       int64  `yaml:"embedding_dimensions"`
	MaxInputTokens   int64  `yaml:"max_input_tokens"`
	CustomDimensions bool   `yaml:"custom_dimensions"`
	Price            *Price `yaml:"price"` // required; its output is nothing
}

func newEmbedding() Spec { return &Embedding{Tokenizer: defaultTokenizer} }

// Text is true: the model reads, and a key for private text must not pass it by.
func (e *Embedding) Text() bool { return true }

// Free says that `price: free` is written.
func (e *Embedding) Free() bool { return e.Price != nil && e.Price.Free }

func (e *Embedding) dearer(than Spec) bool { return dearer(e.Price, than.(*Embedding).Price) }

func (e *Embedding) complete(*Model) {}

func (e *Embedding) check(v *validator, path string, _ *Model) {
	v.tokenizer(path, e.Tokenizer)
	whole(v, path+".embedding_dimensions", e.Dimensions, 0, 1_000_000)
	whole(v, path+".max_input_tokens", e.MaxInputTokens, 0, maxTokenSpan)
	v.tokenPrice(path+".price", e.Price, false, 0)
}

func (e *Embedding) checkTarget(v *validator, path string, m *Model, t *Target, u *Upstream) {
	v.writes(path, t, u)
	v.cloudName(path, t, u, m.ID)
	v.embeds(path, t, u)
	v.noOptions(path, m, t)
}

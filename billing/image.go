package billing

import "farebox/config"

// ImageSale is what one request buys of a model of pictures (addendum 19.2):
// pictures at one price, input pictures beyond the included ones, a search of
// the web, and a prompt that was rewritten. It is charged like tokens, with the
// price of this sale as the price: pictures stand in the line of output, further
// inputs in that of input, searches in that of cache reads, the rewritten prompt
// in that of cache writes.
type ImageSale struct {
	Model *config.Model
	// Resolution and Quality are the chosen ones, empty where the model has
	// none; Scale is for models that enlarge.
	Resolution, Quality string
	Scale               float64
	Images              int64 // asked for
	Inputs              int64
	WebSearch           bool
	// Rewritten says that the prompt was, for RewritePrice a request, however
	// many pictures it brings.
	Rewritten    bool
	RewritePrice config.Each
}

// Price is what the sale is charged by: pico-USD a unit.
func (s *ImageSale) Price() *config.Price {
	p := s.Model.Price
	if p.Free && !s.Rewritten {
		return p
	}
	rewrite := config.Pico(s.RewritePrice)
	sale := &config.Price{CacheWrite: &rewrite}
	if p.Free {
		return sale // the pictures are, the words are not
	}
	if s.Model.Type == "upscale" {
		sale.Output = config.Pico(p.Factor(s.Scale))
	} else {
		// The config has made sure that everything has a price.
		each, _ := p.Base(s.Resolution, s.Quality)
		sale.Output = config.Pico(each)
	}
	if in := p.InputImages; in != nil {
		sale.Input = config.Pico(in.Additional)
	}
	search := config.Pico(0)
	if p.WebSearch != nil {
		search = config.Pico(*p.WebSearch)
	}
	sale.CacheRead = &search
	return sale
}

// Usage is what delivered pictures use. None delivered is nothing used: blocked
// and failed ones are free.
func (s *ImageSale) Usage(delivered int64) Usage {
	if delivered <= 0 {
		return Usage{}
	}
	u := Usage{Completion: delivered, Seen: true}
	if in := s.Model.Price.InputImages; in != nil {
		u.Prompt = max(0, s.Inputs-in.Included)
	}
	if s.WebSearch {
		u.Prompt++
		u.Cached = 1
	}
	if s.Rewritten {
		u.Prompt++
		u.CacheWrite = 1
	}
	return u
}

// Rewriting is the usage of a request that came no further than its prompt.
func (s *ImageSale) Rewriting() Usage { return Usage{Prompt: 1, CacheWrite: 1, Seen: true} }

// Cost is the price of delivered pictures.
func (s *ImageSale) Cost(delivered int64) Nano { return Cost(s.Price(), s.Usage(delivered)) }

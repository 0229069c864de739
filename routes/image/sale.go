package image

import (
	"farebox/billing/money"
	"farebox/config"
)

// imageSale lists the charged units of one request to a model of pictures (addendum 19.2):
// pictures at one price, input pictures beyond the included ones, a search of the web, and a
// prompt that was rewritten.
type imageSale struct {
	Price *config.ImagePrice // of the model
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

// Lines are the charge of delivered pictures. Without any nothing is charged: blocked and failed
// ones are free. Of a model that is free the pictures are, the words are not.
func (s *imageSale) Lines(delivered int64) (l money.Lines) {
	if delivered <= 0 {
		return l
	}
	p := s.Price
	if in := p.InputImages; in != nil && s.Inputs > in.Included {
		l.Add(money.InputImages, s.Inputs-in.Included, s.unlessFree(in.Additional))
	}
	if s.WebSearch {
		price := config.Each(0)
		if p.WebSearch != nil {
			price = *p.WebSearch
		}
		l.Add(money.WebSearches, 1, s.unlessFree(price))
	}
	if s.Rewritten {
		l.Add(money.PromptRewrites, 1, money.Pico(s.RewritePrice))
	}
	l.Add(money.Images, delivered, s.unlessFree(s.each()))
	return l
}

// Rewriting is the charge of a request that ended after its prompt was rewritten.
func (s *imageSale) Rewriting() (l money.Lines) {
	l.Add(money.PromptRewrites, 1, money.Pico(s.RewritePrice))
	return l
}

// each is the price of a picture.
func (s *imageSale) each() config.Each {
	p := s.Price
	if len(p.Upscale) > 0 { // the model enlarges
		return p.Factor(s.Scale)
	}
	// The config has made sure that everything has a price.
	each, _ := p.Base(s.Resolution, s.Quality)
	return each
}

func (s *imageSale) unlessFree(price config.Each) money.Pico {
	if s.Price.Free {
		return 0
	}
	return money.Pico(price)
}

// Cost is the price of delivered pictures.
func (s *imageSale) Cost(delivered int64) money.Nano {
	sold := s.Lines(delivered)
	return sold.Cost()
}

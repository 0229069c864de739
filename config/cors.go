package config

import (
	"fmt"
	"net/url"
	"time"
)

// CORS lets pages in browsers call the API.
type CORS struct {
	// Pages that may call the API: https://app.example.com, loopback for pages of this machine, or * for all.
	// Default: none.
	Origins []string `yaml:"origins"`
	// Further response headers that pages may read, besides those of the API.
	Expose []string `yaml:"expose"`
	// How long browsers remember an answer.
	MaxAge time.Duration `yaml:"max_age" default:"10m" range:"0s..24h"`
}

// LoopbackOrigins in CORS.Origins stands for pages that this machine serves.
const LoopbackOrigins = "loopback"

func (v *validator) cors() {
	for i, origin := range v.c.CORS.Origins {
		if origin == "*" || origin == LoopbackOrigins {
			continue
		}
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" ||
			u.RawQuery != "" || u.User != nil {
			path := fmt.Sprintf("cors.origins[%d]", i)
			v.wrong(path, "%s is not an origin; expected one such as https://app.example.com (no path, no slash at the "+
				"end), loopback, or *", v.shown(path))
		}
	}
	for i, name := range v.c.CORS.Expose {
		path := fmt.Sprintf("cors.expose[%d]", i)
		if !headerName.MatchString(name) {
			v.wrong(path, "%s is not a header name", v.shown(path))
		}
	}
}

// Package strict is the simulated upstream as tests need it: it refuses the requests that the vendors refuse, with
// their texts. A gateway's translations must pass here before customers use them.
//
// [New] is a server that judges the bodies of all dialects, the forms of transcriptions, orders of jobs and
// searches, and that checks signatures and tokens of the clouds ([Identity]). The operator's binary has none of it:
// its demonstration answers all that it can.
//
// Nothing of the gateway may be imported here: a shared mistake would be invisible.
package strict

import (
	"strings"

	"farebox/bench/upstream"
)

// Server is a simulated upstream that is as strict as the vendors.
type Server struct {
	*upstream.Server
	identity *Identity
}

// New makes a Server; Serve, Start or StartAll start it.
func New(o upstream.Options) *Server {
	i := &Identity{}
	o.Check, o.Clouds = fault, i
	return &Server{upstream.New(o), i}
}

// Identity is the clouds' knowledge of their callers.
func (s *Server) Identity() *Identity { return s.identity }

// fault is why a vendor would refuse a request.
func fault(r *upstream.Call) (f upstream.Flaw) {
	switch r.API {
	case "messages":
		if f.Text = betaFault(r); f.Text == "" {
			f.Text = messagesFault(r.Asked, r.Betas)
		}
	case "count_tokens":
		f.Text = countFault(r.Asked, r.Betas)
	case "responses":
		return responsesFault(r.Asked)
	case "generate":
		f.Text = googleFault(r.Model, r.Asked)
	case "speech":
		f.Text = speechFault(r.Asked)
	case "labs_speech":
		f.Text = labsFault(r.Asked)
	case "transcription":
		f.Text = earFault(r.Vendor, r.Fields)
	case "search":
		f.Status, f.Text = searchFault(r)
	default:
		f.Text = jobFault(r)
	}
	return f
}

// notInClouds are features of Anthropic's own API that clouds refuse the name of.
var notInClouds = []string{"prompt-caching-scope-2026-01-05", "mid-conversation-system-2026-04-07",
	"mid-conversation-tool-changes-2026-07-01", "thinking-token-count-2026-05-13", "advanced-tool-use-2025-11-20"}

// betaFault is a cloud's error for a feature that it does not know; empty: it knows all.
func betaFault(r *upstream.Call) string {
	for _, beta := range notInClouds {
		if r.Cloud && strings.Contains(r.Betas, beta) {
			return "Unexpected value(s) `" + beta + "` for the `anthropic-beta` header. Please consult our documentation " +
				"at docs.claude.com or try again without the header."
		}
	}
	return ""
}

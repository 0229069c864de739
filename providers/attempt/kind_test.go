package attempt

import (
	"testing"

	"farebox/proxy"
)

// "The dashboard says errors, and not whether it is our key or their server."
func TestFailuresHaveKinds(t *testing.T) {
	for _, c := range []struct {
		tried Tried
		want  string
	}{
		{Tried{Cause: proxy.ConnectFailed, Words: "connection refused"}, "connection"},
		{Tried{Cause: proxy.ConnectFailed, Words: proxy.ErrName.Error()}, "dns"},
		{Tried{Cause: proxy.ConnectFailed, Words: proxy.ErrHandshake.Error()}, "tls"},
		{Tried{Cause: proxy.ConnectFailed, Words: proxy.ErrCertificate.Error()}, "tls"},
		{Tried{Cause: proxy.FirstByteTimeout}, "timeout"},
		{Tried{Status: 200, Cause: proxy.IdleTimeout}, "timeout"},
		{Tried{Status: 200, Cause: proxy.UpstreamTruncated}, "interrupted"},
		{Tried{Status: 200, Cause: proxy.UpstreamMalformed}, "invalid_answer"},
		{Tried{Status: 200}, "invalid_answer"},
		{Tried{Status: 401}, "auth"},
		{Tried{Status: 403}, "auth"},
		{Tried{Status: 402}, "payment"},
		{Tried{Status: 429}, "rate_limit"},
		{Tried{Status: 503}, "server_error"},
		{Tried{Status: 404}, "request_refused"},
		{Tried{Cause: proxy.NoFreeConn}, "no_connection"},
		{Tried{Cause: proxy.NoCredential}, "no_credential"},
		{Tried{Cause: proxy.ClientGone}, ""},
		{Tried{Cause: proxy.Shutdown}, ""},
	} {
		if got := c.tried.Kind().String(); got != c.want {
			t.Errorf("%+v is %q, not %q", c.tried, got, c.want)
		}
	}
}

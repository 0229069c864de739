package attempt

import "farebox/proxy"

// Kind is how an attempt failed, for operators.
type Kind uint8

// The kinds.
const (
	NoError        Kind = iota
	Connection          // refused, or not reachable
	DNS                 // the name of the host cannot be resolved
	TLS                 // the certificate or the handshake is wrong
	Timeout             // no connection or no answer in time, or the answer paused
	Interrupted         // the connection broke, or the answer ended too soon
	InvalidAnswer       // an answer that cannot be used
	AuthRefused         // 401, 403 or 407
	Unpaid              // 402
	RateLimit           // 429
	ServerError         // 5xx
	RequestRefused      // another status
	NoConnection        // all connections that the config allows are in use
	NoCredential        // the credential is missing
	Kinds
)

var kindNames = [Kinds]string{"", "connection", "dns", "tls", "timeout", "interrupted", "invalid_answer", "auth", "payment",
	"rate_limit", "server_error", "request_refused", "no_connection", "no_credential"}

func (k Kind) String() string { return kindNames[k] }

// Kind is the kind of the target's failure.
func (t *Tried) Kind() Kind {
	if t.Cause == proxy.ConnectFailed {
		switch t.Words {
		case proxy.ErrName.Error():
			return DNS
		case proxy.ErrCertificate.Error(), proxy.ErrHandshake.Error():
			return TLS
		}
	}
	if t.Cause != proxy.None {
		return KindOfCause(t.Cause)
	}
	return KindOfStatus(t.Status)
}

// KindOfCause is the kind of an attempt without a whole answer. A client that leaves is no error.
func KindOfCause(c proxy.Cause) Kind {
	switch c {
	case proxy.ConnectFailed:
		return Connection
	case proxy.ConnectTimeout, proxy.FirstByteTimeout, proxy.IdleTimeout, proxy.TotalTimeout:
		return Timeout
	case proxy.UpstreamReset, proxy.UpstreamTruncated:
		return Interrupted
	case proxy.UpstreamMalformed:
		return InvalidAnswer
	case proxy.NoFreeConn:
		return NoConnection
	case proxy.NoCredential:
		return NoCredential
	}
	return NoError
}

// KindOfStatus is the kind of an answer that is not a success. One of 2xx could not be used.
func KindOfStatus(status int) Kind {
	switch {
	case status == 401 || status == 403 || status == 407:
		return AuthRefused
	case status == 402:
		return Unpaid
	case status == 429:
		return RateLimit
	case status >= 500:
		return ServerError
	case status >= 300:
		return RequestRefused
	}
	return InvalidAnswer
}

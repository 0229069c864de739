package proxy

import "slices"

// Cause says how a conversation ended early. None is the good end.
type Cause uint8

// The causes. Each has one meaning; logs and metrics use their names.
const (
	None              Cause = iota
	ClientGone              // the client closed its connection
	ClientStalled           // the client stopped reading
	ConnectFailed           // the upstream refused, or its name or certificate is wrong
	ConnectTimeout          // no connection within TargetOptions.Connect
	NoFreeConn              // the endpoint's MaxConns are all in use
	FirstByteTimeout        // no answer within TargetOptions.FirstByte
	IdleTimeout             // the answer paused for longer than TargetOptions.Idle
	TotalTimeout            // the answer took longer than TargetOptions.Total
	UpstreamReset           // the connection broke
	UpstreamTruncated       // the upstream closed before its answer was complete
	UpstreamMalformed       // the answer is not the HTTP/1.1 we can relay safely
	Cut                     // the lens stopped the answer
	Shutdown                // this process is ending
	Panic                   // a lens panicked
	NoTarget                // there was nobody to ask
	NoCredential            // the endpoint's Credential had nothing to show
)

var causeNames = [...]string{
	"none", "client_gone", "client_stalled", "connect_failed", "connect_timeout", "no_free_conn",
	"first_byte_timeout", "idle_timeout", "total_timeout", "upstream_reset", "upstream_truncated",
	"upstream_malformed", "cut", "shutdown", "panic", "no_target", "no_credential",
}

func (c Cause) String() string {
	if int(c) < len(causeNames) {
		return causeNames[c]
	}
	return "unknown"
}

// CauseNamed is the cause of a name; false: it names none.
func CauseNamed(name string) (Cause, bool) {
	i := slices.Index(causeNames[:], name)
	return Cause(max(i, 0)), i >= 0
}

// ofClient says that the client is gone.
func (c Cause) ofClient() bool { return c == ClientGone || c == ClientStalled }

// Final causes end the request, whatever it still could try.
func (c Cause) Final() bool { return c.ofClient() || c == Shutdown }

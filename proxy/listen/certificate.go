package listen

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Certificate is the server's certificate and key, read again when their files
// change: they are renewed in place, by tools that restart nobody.
type Certificate struct {
	certFile, keyFile string
	current           atomic.Pointer[tls.Certificate]
	lookedNs          atomic.Int64

	mu   sync.Mutex // one look at a time
	seen [2]time.Time
}

// certificateEvery is how long a change of the files may go unnoticed.
const certificateEvery = 10 * time.Second

// LoadCertificate reads PEM files.
func LoadCertificate(certFile, keyFile string) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile}
	if err := c.load(); err != nil {
		return nil, err
	}
	c.lookedNs.Store(time.Now().UnixNano())
	return c, nil
}

// Get is tls.Config.GetCertificate.
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if now := time.Now().UnixNano(); now-c.lookedNs.Load() > int64(certificateEvery) {
		c.lookedNs.Store(now)
		_ = c.Refresh()
	}
	return c.current.Load(), nil
}

// Refresh reads files that have changed. Ones that do not fit, as in the middle
// of a renewal, leave the certificate that is served as it is.
func (c *Certificate) Refresh() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if times, err := c.times(); err == nil && times == c.seen {
		return nil
	}
	return c.load()
}

func (c *Certificate) load() error {
	times, err := c.times()
	if err != nil {
		return fmt.Errorf("cannot load the TLS certificate: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("cannot load the TLS certificate: %w", err)
	}
	c.seen = times
	c.current.Store(&pair)
	return nil
}

func (c *Certificate) times() (times [2]time.Time, err error) {
	for i, file := range []string{c.certFile, c.keyFile} {
		st, err := os.Stat(file)
		if err != nil {
			return times, err
		}
		times[i] = st.ModTime()
	}
	return times, nil
}

package proxy

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// certFiles are the server's certificate and key, read again when their files
// change: they are renewed in place, by tools that restart nobody.
type certFiles struct {
	certFile, keyFile string
	current           atomic.Pointer[tls.Certificate]
	lookedNs          atomic.Int64

	mu   sync.Mutex // one look at a time
	seen [2]time.Time
}

// certificateEvery is how long a change of the files may go unnoticed.
const certificateEvery = 10 * time.Second

func loadCertificate(certFile, keyFile string) (*certFiles, error) {
	c := &certFiles{certFile: certFile, keyFile: keyFile}
	if err := c.load(); err != nil {
		return nil, err
	}
	c.lookedNs.Store(time.Now().UnixNano())
	return c, nil
}

// get is tls.Config.GetCertificate.
func (c *certFiles) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if now := time.Now().UnixNano(); now-c.lookedNs.Load() > int64(certificateEvery) {
		c.lookedNs.Store(now)
		_ = c.refresh()
	}
	return c.current.Load(), nil
}

// refresh reads files that have changed. Ones that do not fit, as in the middle
// of a renewal, leave the certificate that is served as it is.
func (c *certFiles) refresh() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if times, err := c.times(); err == nil && times == c.seen {
		return nil
	}
	return c.load()
}

func (c *certFiles) load() error {
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

func (c *certFiles) times() (times [2]time.Time, err error) {
	for i, file := range []string{c.certFile, c.keyFile} {
		st, err := os.Stat(file)
		if err != nil {
			return times, err
		}
		times[i] = st.ModTime()
	}
	return times, nil
}

// Refresher is a listener whose certificate can be read again.
type Refresher interface{ Refresh() error }

// Refresh reads the certificate again where its files have changed, for a
// reload of the config.
func (ln clientListener) Refresh() error {
	if ln.cert == nil {
		return nil
	}
	return ln.cert.refresh()
}

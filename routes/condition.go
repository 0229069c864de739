package routes

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"farebox/billing"
	"farebox/config"
)

// Warning is a problem for an operator to look at.
type Warning struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Bounds of warnings.
const (
	diskLow         = 10 // percent that are free
	certificateSoon = 14 // days
	backupDays      = 7
	projectionLate  = 30 * time.Second
)

// JournalState is the journal of this node.
type JournalState struct {
	Disk        *billing.Disk `json:"disk"`                // null: not known on this system
	Unprojected int64         `json:"unprojected_records"` // which balances in the store do not have yet
	OldestS     float64       `json:"oldest_unprojected_s"`
}

// CertificateState is a certificate that this node serves.
type CertificateState struct {
	File     string    `json:"file"`
	Names    []string  `json:"names"`
	NotAfter time.Time `json:"not_after"`
	DaysLeft int       `json:"days_left"`
	Error    string    `json:"error,omitempty"`
}

// condition fills in the state of the store, journal, backup and certificates, with warnings.
func (g *Gateway) condition(s *ProcessState, cfg *config.Config) {
	c, err := g.ledger.Condition()
	s.Store.LatencyMs, s.Store.Bytes, s.Store.Disk = float64(c.Latency.Microseconds())/1000, c.Bytes, c.StoreDisk
	s.Journal = JournalState{c.Journal, s.Store.Unprojected, c.Oldest.Seconds()}
	s.Backup, s.ConfigDigest = c.Backup, cfg.Digest(g.ledger.DeriveSecret("digests of configs"))
	s.Certificates = certificates(cfg, time.Now())
	s.Warnings = []Warning{}
	warn := func(code, format string, args ...any) {
		s.Warnings = append(s.Warnings, Warning{code, fmt.Sprintf(format, args...)})
	}
	if err != nil || !s.Store.Up {
		warn("store_away", "The store does not answer.")
	}
	if s.Redis.Configured && !s.Redis.Up {
		warn("redis_away", "Redis does not answer, so limits are those of this node.")
	}
	if d := c.Journal; d != nil && d.Free*100 < d.Total*diskLow {
		warn("disk_low", "%d %% of the disk with the journal is free.", d.Free*100/d.Total)
	}
	if c.Oldest >= projectionLate {
		warn("projection_behind", "The store is behind the journal by %s.", c.Oldest.Round(time.Second))
	}
	for _, one := range s.Certificates {
		switch {
		case one.Error != "":
			warn("certificate_unread", "The certificate in %s cannot be read.", one.File)
		case one.DaysLeft < certificateSoon:
			warn("certificate_ends", "The certificate in %s ends in %d days.", one.File, one.DaysLeft)
		}
	}
	switch {
	case err != nil:
	case c.Backup == nil:
		warn("no_backup", "No backup was ever made.")
	case time.Since(c.Backup.At) > backupDays*24*time.Hour:
		warn("no_backup", "The last backup was made %d days ago.", int(time.Since(c.Backup.At).Hours()/24))
	}
	for _, held := range g.ledger.Steering() {
		if !g.hasUpstream(held.Upstream, held.Model) {
			warn("steering_unknown", "The upstream %q is %s, and the config does not have it; resume it to forget it.", held.Upstream, held.State)
		}
	}
}

// certificates are those of the listeners.
func certificates(cfg *config.Config, now time.Time) []CertificateState {
	list := []CertificateState{}
	if cfg.TLS.Cert == "" {
		return list
	}
	s := CertificateState{File: cfg.TLS.Cert, Names: []string{}}
	cert, err := leafOf(cfg.TLS.Cert)
	if err != nil {
		s.Error = "it cannot be read"
		return append(list, s)
	}
	s.Names = append(s.Names, cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		s.Names = append(s.Names, ip.String())
	}
	if name := cert.Subject.CommonName; len(s.Names) == 0 && name != "" {
		s.Names = append(s.Names, name)
	}
	slices.Sort(s.Names)
	s.NotAfter, s.DaysLeft = cert.NotAfter.UTC(), int(cert.NotAfter.Sub(now).Hours()/24)
	return append(list, s)
}

// leafOf reads the first certificate of a file.
func leafOf(path string) (*x509.Certificate, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
	return nil, errors.New("there is no certificate in it")
}

package routes

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"farebox/config"
)

// The state shows the names and days of a certificate, and the error of a broken file.
func TestCertificatesAreShownWithTheirEnd(t *testing.T) {
	now := time.Now()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"b.example.com", "a.example.com"}, NotAfter: now.Add(10*24*time.Hour + time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.pem"), filepath.Join(dir, "bad.pem")
	for path, text := range map[string][]byte{good: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), bad: []byte("no certificate")} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg := &config.Config{}
	if list := certificates(cfg, now); len(list) != 0 {
		t.Errorf("without TLS there are %+v", list)
	}
	cfg.TLS.Cert = good
	if c := certificates(cfg, now)[0]; c.DaysLeft != 10 || !slices.Equal(c.Names, []string{"a.example.com", "b.example.com"}) || c.Error != "" {
		t.Errorf("%+v", c)
	}
	cfg.TLS.Cert = bad
	if c := certificates(cfg, now)[0]; c.Error == "" {
		t.Errorf("a broken one is %+v", c)
	}
}

// Package health is `farebox health`, which asks a running farebox whether it
// serves: the check of containers and of scripts.
//
// Out of scope: an import of the gateway. It is asked from outside, as clients do.
package health

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"farebox/config"
	"farebox/proxy/listen"
	"farebox/routes"
)

// Command is `farebox health`.
func Command() *cobra.Command {
	var file, url string
	var live bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "health -c FILE", Short: "Ask a running farebox whether it serves; status 1 when it does not",
		Args: func(cmd *cobra.Command, args []string) error {
			if (file == "") == (url == "") {
				return errors.New("expected either --config or --url")
			}
			return cobra.NoArgs(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			path := "/readyz"
			if live {
				path = "/healthz"
			}
			client, at := &http.Client{}, strings.TrimSuffix(url, "/")
			if file != "" {
				cfg, err := config.Load(file)
				if err != nil {
					return err
				}
				client.Transport, at = ownTransport(cfg)
			}
			client.Timeout = timeout
			said, err := get(client, at+path)
			if err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "%s%s: %s\n", at, path, said)
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "config file (YAML): asks the address that it listens on")
	cmd.Flags().StringVar(&url, "url", "", "asks this address, such as http://127.0.0.1:8080")
	cmd.Flags().BoolVar(&live, "live", false, "ask /healthz, whether the process answers; default: /readyz, whether it takes work")
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long the answer may take")
	return cmd
}

// ownTransport reaches the farebox of a config on this machine. An address such as 0.0.0.0
// is dialed on the loopback interface.
func ownTransport(cfg *config.Config) (http.RoundTripper, string) {
	network, addr, host := "tcp", cfg.Listen, cfg.Listen
	if path, ok := strings.CutPrefix(cfg.Listen, "unix:"); ok {
		network, addr, host = "unix", path, "unix"
	} else if strings.HasPrefix(host, ":") {
		host = "127.0.0.1" + host
	}
	front := routes.ListenOptions(cfg, nil).Front
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if front != nil && front.ProxyProtocol && front.Trusts(listen.AddrOf(c.LocalAddr())) {
			if _, err := io.WriteString(c, listen.OwnPreface); err != nil {
				return nil, errors.Join(err, c.Close())
			}
		}
		return c, nil
	}
	scheme := "http://"
	if cfg.TLS.Cert != "" {
		scheme = "https://"
	}
	// The certificate is for the public name. Nothing that is secret is sent.
	return &http.Transport{DialContext: dial, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, scheme + host
}

const mostSaid = 64 // of the answer, one word

func get(client *http.Client, url string) (said string, err error) {
	res, err := client.Get(url)
	if err != nil {
		return "", fmt.Errorf("not healthy: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	word := make([]byte, mostSaid)
	n, _ := io.ReadFull(res.Body, word)
	said, _, _ = strings.Cut(string(word[:n]), "\n")
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("not healthy: %s answered %d %q", url, res.StatusCode, said)
	}
	return said, nil
}

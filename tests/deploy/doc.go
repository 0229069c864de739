// Package deploy tests the files of config/deploy as operators use them: with nginx,
// Caddy, PostgreSQL, Redis and Prometheus where these can run, and with validators
// where they cannot.
package deploy

package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Remote asks a simulated upstream in another process for its truth. URL is its
// address, with or without /v1.
type Remote struct{ URL string }

const (
	remoteTimeout = 10 * time.Second
	idleLimit     = 30 * time.Second
)

// Stats is the truth so far.
func (r Remote) Stats(ctx context.Context) (s Stats, err error) { return s, r.read(ctx, "stats", &s) }

// Made is what an id cost.
func (r Remote) Made(ctx context.Context, id string) (m Made, err error) {
	return m, r.read(ctx, "made/"+id, &m)
}

// IdleStats waits until nothing is under way.
func (r Remote) IdleStats(ctx context.Context) (s Stats, err error) {
	for end := time.Now().Add(idleLimit); ; time.Sleep(20 * time.Millisecond) {
		if s, err = r.Stats(ctx); err != nil || s.Open == 0 {
			return s, err
		}
		if time.Now().After(end) {
			return s, fmt.Errorf("%d requests are still under way after %v", s.Open, idleLimit)
		}
	}
}

func (r Remote) read(ctx context.Context, path string, into any) error {
	root := strings.TrimSuffix(strings.TrimSuffix(r.URL, "/"), "/v1")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, root+"/_sim/"+path, nil)
	if err != nil {
		return err
	}
	client := http.Client{Timeout: remoteTimeout}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %d", root, res.StatusCode)
	}
	return json.NewDecoder(res.Body).Decode(into)
}

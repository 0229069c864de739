package media

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"farebox/billing/store"
	"farebox/config"
	"farebox/providers"
	"farebox/providers/media"
	"farebox/routes"
)

// Capability is the type that main registers.
type Capability struct {
	store   media.Store
	rows    routes.MediaStore
	links   *media.Links
	node    uint32
	log     *zerolog.Logger
	uses    *uses
	sweeper *media.Sweeper

	sums   atomic.Pointer[media.Sums] // of the last sweep
	swept  *metrics.Counter
	served *metrics.Counter // bytes
}

// New makes the capability of a store.
func New(store media.Store) *Capability { return &Capability{store: store, uses: newUses()} }

// Open is routes.Capability.
func (c *Capability) Open(g *routes.Gateway) []routes.Row {
	c.rows, c.links, c.node, c.log = g.MediaRows(), g.Links(), g.NodeNo(), g.Logger()
	c.swept = g.Metrics().NewCounter("farebox_media_swept_total")
	c.served = g.Metrics().NewCounter("farebox_media_link_bytes_total")
	sum := func(of *atomic.Pointer[media.Sums], n func(*media.Sums) int64) func() float64 {
		return func() float64 {
			if s := of.Load(); s != nil {
				return float64(n(s))
			}
			return 0
		}
	}
	g.Metrics().NewGauge("farebox_media_bytes", sum(&c.sums, func(s *media.Sums) int64 { return s.Bytes }))
	g.Metrics().NewGauge("farebox_media_files", sum(&c.sums, func(s *media.Sums) int64 { return s.Files }))
	const path = routes.MediaPath + "{id}"
	row := func(method string, serve routes.Handler) routes.Row {
		return routes.Row{Method: method, Path: path, Access: routes.Public, Form: routes.NoBody,
			Limit: routes.SmallBody, Serve: serve}
	}
	return []routes.Row{row("GET", c.get), row("HEAD", c.get), row("DELETE", c.revoke)}
}

// Load is routes.Loader: the store is swept once a config is served.
func (c *Capability) Load(cfg *config.Config, _ *providers.Catalog, _ any) (routes.View, error) {
	return routes.View{Headers: [][]byte{[]byte("Content-Range"), []byte("Accept-Ranges"), []byte("ETag"),
		[]byte("Content-Disposition")}, Serve: func() { c.sweep(cfg.Media.Sweep) }}, nil
}

// sweep begins to look through the store, once.
func (c *Capability) sweep(every time.Duration) {
	if c.sweeper != nil || c.store == nil {
		return
	}
	c.sweeper = media.NewSweeper(c.store, every, c.wanted, c.note)
	c.sweeper.Start()
}

// Close ends the sweeps, before the ledger is closed.
func (c *Capability) Close() {
	if c.sweeper != nil {
		c.sweeper.Close()
	}
}

// wanted says whether the ledger's job still needs a file.
func (c *Capability) wanted(id string) (media.Verdict, error) {
	row, err := c.rows.Job(id)
	switch {
	case isNone(err):
		return media.Unknown, nil
	case err != nil:
		return media.Wanted, err
	case row.ReleasedUs != 0 || row.State.Terminal() && row.MediaType == "":
		return media.Unwanted, nil
	}
	return media.Wanted, nil
}

// mostRows is how many of the newest jobs are compared with the store.
const mostRows = 10_000

// note tells of a sweep.
func (c *Capability) note(s media.Sums, listed map[string]bool, err error) {
	if err != nil {
		c.log.Warn().Err(err).Msg("the media store could not be looked through; it is tried again")
		return
	}
	c.sums.Store(&s)
	c.swept.Add(int(s.Removed))
	if s.Removed > 0 {
		c.log.Info().Int64("files", s.Removed).Int64("bytes", s.RemovedBytes).
			Msg("removed files without a job from the media store")
	}
	if s.Refused > 0 {
		c.log.Error().Int64("files", s.Refused).Str("store", c.store.Name()).
			Msg("most files in the media store belong to no job of this ledger, so none was removed: " +
				"does the directory, or the prefix in the bucket, belong to another service? If the ledger is the right " +
				"one, remove the files yourself")
	}
	rows, err := c.rows.Jobs(0, store.JobPlace{}, mostRows)
	if err != nil {
		return
	}
	missing, some := 0, ""
	soon := s.Began.Add(-time.Minute).UnixMicro()
	for _, r := range rows {
		if r.MediaType != "" && r.ReleasedUs == 0 && r.State.Terminal() && r.EndedUs < soon && !listed[r.ID] {
			ctx, cancel := context.WithTimeout(context.Background(), openLimit)
			if _, err := c.store.Size(ctx, r.ID); isMissing(err) {
				missing, some = missing+1, r.ID
			}
			cancel()
		}
	}
	if missing > 0 {
		c.log.Error().Int("jobs", missing).Str("queue_id", some).
			Msg(fmt.Sprintf("results of jobs are missing in %s: somebody removed them, or another node stores them for "+
				"itself (media.s3, or a media.dir that all nodes see)", c.store.Name()))
	}
}

// body is a body on its way to a client; it is a proxy.Source.
type body struct {
	io.ReadCloser
	size   int64
	broken error // of the store, not of the client
}

// Len is proxy.Source.
func (b *body) Len() int64 { return b.size }

// WriteTo is proxy.Source; it is called once.
func (b *body) WriteTo(w io.Writer) (n int64, err error) {
	buf := make([]byte, min(64<<10, max(b.size, 1)))
	for n < b.size {
		read, err := b.Read(buf[:min(int64(len(buf)), b.size-n)])
		if read > 0 {
			wrote, err := w.Write(buf[:read])
			n += int64(wrote)
			if err != nil {
				return n, err
			}
		}
		if err == io.EOF && n < b.size {
			err = io.ErrUnexpectedEOF
		}
		if err != nil && n < b.size {
			b.broken = err
			return n, err
		}
	}
	return n, nil
}

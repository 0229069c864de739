package routes

import (
	"time"

	"farebox/billing/store"
	"farebox/providers/media"
)

// MediaStore serves the media of jobs to everybody with a link.
type MediaStore interface {
	Job(id string) (*store.JobRow, error)
	Jobs(account uint32, behind store.JobPlace, most int) ([]*store.JobRow, error)
	JobCounts(account uint32) (store.JobCounts, error)
	RevokeLinks(id string, nowUs int64) (ok bool, err error)
	UseLinks(id string, use func(links []byte, alive func(node uint32) bool) store.LinkUse) error
}

// MediaRows is the store of jobs for the capability that serves their media.
func (g *Gateway) MediaRows() MediaStore { return g.ledger.Jobs() }

// NodeNo is the number of this process among those that share a store.
func (g *Gateway) NodeNo() uint32 { return g.ledger.NodeNo() }

// MediaPath precedes the ids of jobs in links, below Prefix.
const MediaPath = "/media/"

// Links signs links to the media of jobs.
func (g *Gateway) Links() *media.Links { return media.NewLinks(g.ledger.DeriveSecret("media links")) }

// MediaLink is a link to the media of a job, open to all its holders, until it expires. It is
// empty where it is not known how clients reach this service (public_url).
func (c *Call) MediaLink(id string, kind media.LinkKind, expires time.Time) string {
	base := c.snap.cfg.PublicAddress()
	if base == "" {
		return ""
	}
	return base + Prefix + MediaPath + id + "?" + c.g.Links().Query(id, kind, expires)
}

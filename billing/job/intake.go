package job

import (
	"io"
	"math"
	"sync/atomic"

	"farebox/config/asyncjob"
)

// intake counts media being kept, so that results that come at the same time do not
// pass the quota of all together: the store counts a job's media only once the job
// is completed. Other nodes count their own.
type intake struct {
	under atomic.Int64 // bytes of bodies that are under way
	kept  atomic.Int64 // bytes of those that were kept since the process began
}

// arrival is a body that is being kept. It ends in ErrFull once there is no room left.
type arrival struct {
	io.Reader
	of    *intake
	since int64 // of kept, when the room was counted
	room  int64
	n     int64
}

// expect is to be called before the room for a body is counted.
func (i *intake) expect(body io.Reader) *arrival {
	return &arrival{Reader: body, of: i, since: i.kept.Load(), room: math.MaxInt64}
}

// Read is io.Reader.
func (a *arrival) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	a.n += int64(n)
	if a.of.under.Add(int64(n))+a.of.kept.Load()-a.since > a.room {
		return 0, asyncjob.ErrFull
	}
	return n, err
}

// done is called once a job has its kept media, or where none were kept.
func (a *arrival) done(kept bool) {
	if kept {
		a.of.kept.Add(a.n)
	}
	a.of.under.Add(-a.n)
}

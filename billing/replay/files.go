package replay

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"farebox/billing/disk"
	"farebox/config/background"
	"farebox/config/fair"
)

// fileStore keeps keyed requests in files of one hour each, to which records
// are only appended, and an index in memory. A file is removed when its last
// record has expired. A written record survives kill -9; the begin of a
// write is on disk before it goes upstream; the rest is on disk a second later,
// or at once with durability power.
type fileStore struct {
	dir      string
	windowMs int64
	power    bool
	log      zerolog.Logger
	now      func() int64

	mu    sync.Mutex
	index map[requestID]location
	hours map[uint32]*hourFile
	last  *hourFile // the file that records are appended to; nil: none yet

	// Shares of the owners. They change with index and hours, under mu.
	keys  *fair.Space // of index
	bytes *fair.Space // of records on disk

	work background.Work
}

// location is where the newest record of a key is. It has no pointers, so
// that a million of them cost the garbage collector nothing.
type location struct {
	atMs  int64
	at    int64
	size  uint32
	hour  uint32
	owner fair.Owner
}

type hourFile struct {
	hour   uint32
	file   *os.File
	end    int64                // guarded by fileStore.mu
	shares map[fair.Owner]share // guarded by fileStore.mu

	syncing sync.Mutex
	synced  int64 // guarded by syncing
}

// share is an owner's part of a file: keys whose newest record is there, and bytes of
// all records. It goes with the file.
type share struct{ keys, bytes int64 }

const (
	filesDir   = "idempotency"
	fileSuffix = ".keys"
	fileMagic  = "fbkeys1\n"
	hourMs     = int64(time.Hour / time.Millisecond)
	// tendEvery is the pace of syncs and of looking for expired files.
	tendEvery = time.Second
	// dropAtOnce is how many keys are looked at before others get the lock.
	dropAtOnce = 4096
)

// openFiles reads the files of an earlier process.
func openFiles(o *Options) (*fileStore, error) {
	c := &o.Config
	f := &fileStore{
		dir: filepath.Join(o.Dir, cmp.Or(o.Folder, filesDir)), windowMs: c.Window.Milliseconds(), power: o.Power, log: o.Log, now: o.Now,
		keys: fair.NewRoom(int64(c.MaxKeys)), bytes: fair.NewRoom(int64(c.MaxStored)),
		index: map[requestID]location{}, hours: map[uint32]*hourFile{},
	}
	if err := f.recover(); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot read the idempotency keys in %s: %w", f.dir, err), f.closeFiles())
	}
	if !o.Idle {
		f.work.Every(tendEvery, f.tend)
	}
	return f, nil
}

func newHourFile(hour uint32, file *os.File) *hourFile {
	return &hourFile{hour: hour, file: file, shares: map[fair.Owner]share{}}
}

// put makes a record of a file the newest of its key, and counts it.
func (f *fileStore) put(r *record, at int64, k *hourFile) {
	f.count(k, r.owner, share{bytes: r.stored()})
	if old, was := f.locate(r.id); was != nil {
		f.count(was, old.owner, share{keys: -1})
	}
	if r.kind == kindForgotten || r.kind == kindErased {
		delete(f.index, r.id)
		return
	}
	f.index[r.id] = location{atMs: r.atMs, at: at, size: uint32(r.stored()), hour: k.hour, owner: r.owner}
	f.count(k, r.owner, share{keys: 1})
}

// count adds n to an owner's share of a file.
func (f *fileStore) count(k *hourFile, o fair.Owner, n share) {
	has := k.shares[o]
	k.shares[o] = share{has.keys + n.keys, has.bytes + n.bytes}
	f.keys.Put(o, n.keys)
	f.bytes.Put(o, n.bytes)
}

// locate is where the newest record of an id is; no file: nowhere.
func (f *fileStore) locate(id requestID) (location, *hourFile) {
	place, ok := f.index[id]
	if !ok {
		return place, nil
	}
	return place, f.hours[place.hour]
}

// past says that all records of an hour have expired.
func (f *fileStore) past(hour uint32, nowMs int64) bool {
	return (int64(hour)+1)*hourMs+f.windowMs <= nowMs
}

func (f *fileStore) find(p *record) (*record, error) {
	found, err := f.read(p.id)
	if found != nil && found.yields(p) { // its leader here is dead: otherwise p would not come this far
		return nil, err
	}
	return found, err
}

func (f *fileStore) begin(p *record, durable bool) (*record, error) {
	if found, err := f.find(p); found != nil || err != nil {
		return found, err
	}
	p.flags |= flagOwned
	k, end, err := f.append(p, true)
	if err != nil {
		return nil, err
	}
	if durable {
		if err := k.sync(end); err != nil {
			return nil, errors.Join(fmt.Errorf("cannot put an idempotency key on disk: %w", err), f.finish(p, nil, nil))
		}
	}
	return nil, nil
}

func (f *fileStore) load(ids ...requestID) (list []*record, err error) {
	list = make([]*record, len(ids))
	for i, id := range ids {
		if list[i], err = f.read(id); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (f *fileStore) keep(r *record) error {
	r.flags |= flagOwned
	_, _, err := f.append(r, true)
	return err
}

func (f *fileStore) drop(r *record) error {
	f.mu.Lock()
	_, known := f.locate(r.id)
	f.mu.Unlock()
	if known == nil {
		return nil
	}
	_, _, err := f.append(r, false)
	return err
}

// read returns the record of an id, nil for none.
func (f *fileStore) read(id requestID) (*record, error) {
	f.mu.Lock()
	place, k := f.locate(id)
	f.mu.Unlock()
	if k == nil || place.atMs+f.windowMs <= f.now()/1e6 {
		return nil, nil
	}
	b := make([]byte, place.size)
	if _, err := k.file.ReadAt(b, place.at); err != nil {
		if errors.Is(err, os.ErrClosed) {
			return nil, nil // it has just expired
		}
		return nil, fmt.Errorf("cannot read a kept answer: %w", err)
	}
	r := &record{}
	if r.parse(b) {
		if r.kind == kindErased {
			return nil, nil // just now
		}
		return r, nil
	}
	f.log.Error().Str("file", k.file.Name()).Int64("at", place.at).Msg("a kept answer is damaged")
	if !r.readHead(b) {
		return nil, errUnreadable
	}
	// The request was carried out; only its answer is lost.
	r.flags |= flagTooLarge
	return r, nil
}

func (f *fileStore) finish(p, done *record, _ func()) error {
	if done == nil {
		gone := *p
		gone.kind = kindForgotten
		_, _, err := f.append(&gone, false)
		return err
	}
	k, end, err := f.append(done, false)
	if err != nil {
		return err
	}
	if f.power {
		if err := k.sync(end); err != nil {
			// Whether it is there after a power cut is open; it is there now.
			f.log.Error().Err(err).Msg("cannot put a kept answer on disk")
		}
	}
	return nil
}

// append writes a record and makes it the newest of its key. A fresh one needs space for
// its key, for its record and for that of a request's end; an answer without space is kept
// without its body.
func (f *fileStore) append(r *record, fresh bool) (*hourFile, int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fresh {
		_, known := f.locate(r.id)
		if known == nil && !f.keys.Fits(r.owner, 1) || !f.bytes.Fits(r.owner, r.stored()+ownedSize) {
			return nil, 0, errFull
		}
	} else if r.size > 0 && !f.bytes.Fits(r.owner, r.stored()) {
		r = r.tooLarge()
	}
	k, err := f.current()
	if err != nil {
		return nil, 0, err
	}
	b := r.bytes()
	if _, err := k.file.WriteAt(b, k.end); err != nil {
		// Bytes behind the end are not read; the next record overwrites them.
		return nil, 0, errors.Join(err, k.file.Truncate(k.end))
	}
	f.put(r, k.end, k)
	k.end += int64(len(b))
	return k, k.end, nil
}

// current is the file of this hour. A clock that goes back stays in the last.
func (f *fileStore) current() (*hourFile, error) {
	hour := uint32(f.now() / 1e6 / hourMs)
	if f.last != nil && f.last.hour >= hour {
		return f.last, nil
	}
	path := filepath.Join(f.dir, fmt.Sprintf("%010d%s", hour, fileSuffix))
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	k := newHourFile(hour, file)
	if err := errors.Join(f.restart(k), disk.Sync(f.dir)); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	f.last, f.hours[hour] = k, k
	return k, nil
}

// sync puts the file on disk up to end. Of many that wait, one syncs for all
// that have written meanwhile.
func (h *hourFile) sync(end int64) error {
	h.syncing.Lock()
	defer h.syncing.Unlock()
	if h.synced >= end {
		return nil
	}
	info, err := h.file.Stat()
	if err == nil {
		err = h.file.Sync()
	}
	if err == nil {
		h.synced = info.Size()
	}
	return err
}

// tend syncs written records and removes expired files.
func (f *fileStore) tend() {
	nowMs := f.now() / 1e6
	f.mu.Lock()
	var gone []*hourFile
	for hour, k := range f.hours {
		if f.past(hour, nowMs) {
			gone = append(gone, k)
			delete(f.hours, hour)
			if f.last == k {
				f.last = nil
			}
		}
	}
	ends := make(map[*hourFile]int64, len(f.hours))
	for _, k := range f.hours {
		ends[k] = k.end
	}
	f.mu.Unlock()
	if len(gone) > 0 {
		f.dropExpired()
	}
	for _, k := range gone {
		for o, has := range k.shares { // no other code uses the file any more
			f.keys.Give(o, has.keys)
			f.bytes.Give(o, has.bytes)
		}
		if err := errors.Join(os.Remove(k.file.Name()), k.file.Close()); err != nil {
			f.log.Warn().Err(err).Msg("cannot remove expired idempotency keys")
		}
	}
	for k, end := range ends {
		if err := k.sync(end); err != nil {
			f.log.Error().Err(err).Msg("cannot put idempotency keys on disk")
		}
	}
}

// dropExpired takes the keys of files that are gone out of the index, some thousand at a
// time: requests do not wait for a walk over a million of them.
func (f *fileStore) dropExpired() {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for id, place := range f.index {
		if f.hours[place.hour] == nil {
			delete(f.index, id)
		}
		if n++; n%dropAtOnce == 0 {
			f.mu.Unlock()
			f.mu.Lock()
		}
	}
}

func (f *fileStore) close() error {
	f.work.Close()
	return f.closeFiles()
}

func (f *fileStore) closeFiles() (err error) {
	for _, k := range f.hours {
		err = errors.Join(err, k.sync(k.end), k.file.Close())
	}
	return err
}

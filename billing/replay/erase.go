package replay

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Erase removes the answers that were kept for an account, wherever they are. Requests that are
// under way may still keep one. Answers from before version 0.1 do not tell their account.
func (k *Keys) Erase(account uint32) (int64, error) {
	if k == nil {
		return 0, nil
	}
	return k.store.erase(account)
}

// Erase removes the texts of an account.
func (v *Values) Erase(account uint32) (int64, error) {
	if v == nil {
		return 0, nil
	}
	return v.store.erase(account)
}

// EraseIn is Erase for a store that is not open. Whatever the window is, nothing else goes.
func EraseIn(o Options, account uint32) (n int64, err error) {
	if !o.Redis.Used() {
		if _, err := os.Stat(filepath.Join(o.Dir, o.Folder)); errors.Is(err, os.ErrNotExist) {
			return 0, nil
		}
	}
	o.Idle, o.Config.Window = true, eraseWindow
	s, err := openStore(&o, 0)
	if err != nil {
		return 0, err
	}
	n, err = s.erase(account)
	return n, errors.Join(err, s.close())
}

// eraseWindow is more than any window.
const eraseWindow = 10_000 * time.Hour

// of says whether r is a kept answer of an account.
func (r *record) of(account uint32) bool { return r.kind == kindDone && r.boot == uint64(account) }

// erase overwrites an account's records in the files: also those that were dropped, or have a newer
// one. A record that is erased keeps its size, so that those behind it are found.
func (f *fileStore) erase(account uint32) (n int64, err error) {
	f.mu.Lock()
	ends := make(map[*hourFile]int64, len(f.hours))
	for _, k := range f.hours {
		ends[k] = k.end
	}
	f.mu.Unlock()
	for k, end := range ends {
		erased, failed := f.eraseFile(k, end, account)
		if n += erased; !errors.Is(failed, os.ErrClosed) { // else the file has just expired
			err = errors.Join(err, failed)
		}
	}
	return n, err
}

func (f *fileStore) eraseFile(k *hourFile, end int64, account uint32) (n int64, err error) {
	type place struct {
		r  record
		at int64
	}
	var found []place
	_, err = scan(io.NewSectionReader(k.file, 0, end), end, false, func(r *record, at int64) {
		if r.of(account) {
			found = append(found, place{*r, at})
		}
	})
	for i := 0; err == nil && i < len(found); i++ {
		p := &found[i]
		f.mu.Lock()
		if at, newest := f.locate(p.r.id); newest == k && at.at == p.at {
			delete(f.index, p.r.id)
			f.count(k, at.owner, share{keys: -1})
		}
		f.mu.Unlock()
		if p.r.size > 0 {
			n++
		}
		_, err = k.file.WriteAt(p.r.erased(), p.at)
	}
	if err == nil && len(found) > 0 {
		err = k.file.Sync()
	}
	return n, err
}

// erased is a record of the same size without a text. It answers nothing.
func (r record) erased() []byte {
	r.kind, r.fingerprint = kindErased, [32]byte{}
	r.rest = make([]byte, r.size)
	r.sum = crc32.Checksum(r.rest, castagnoli)
	return r.bytes()
}

// eraseAtOnce is how many names are looked at in one call.
const eraseAtOnce = 512

// erase looks through all names, since they do not tell their account.
func (r *redisStore) erase(account uint32) (int64, error) {
	var n atomic.Int64
	each := func(ctx context.Context, c redis.Cmdable) error {
		for cursor := uint64(0); ; {
			names, next, err := c.Scan(ctx, cursor, r.prefix+"*", eraseAtOnce).Result()
			if err != nil {
				return err
			}
			erased, err := r.eraseNames(ctx, c, names, account)
			n.Add(erased)
			if err != nil || next == 0 {
				return err
			}
			cursor = next
		}
	}
	ctx := context.Background()
	var err error
	if cluster, ok := r.client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return each(ctx, c) })
	} else {
		err = each(ctx, r.client)
	}
	r.note(err)
	return n.Load(), err
}

func (r *redisStore) eraseNames(ctx context.Context, c redis.Cmdable, names []string, account uint32) (n int64, err error) {
	if len(names) == 0 {
		return 0, nil
	}
	heads, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, name := range names {
			p.GetRange(ctx, name, 0, ownedSize-1)
		}
		return nil
	})
	if err != nil && !errors.As(err, new(redis.Error)) { // a share is not text
		return 0, err
	}
	for i, head := range heads {
		b, err := head.(*redis.StringCmd).Bytes()
		var found record
		if err != nil || !found.readHead(b) || !found.of(account) {
			continue
		}
		gone, err := c.Del(ctx, names[i]).Result()
		if n += gone; err != nil {
			return n, err
		}
	}
	return n, nil
}

// newBoot makes the boot of a process: no account has this number.
func newBoot(random uint64) uint64 { return random | (math.MaxUint32 + 1) }

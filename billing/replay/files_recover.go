package replay

import (
	"bufio"
	"cmp"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"farebox/billing/disk"
)

// recover reads the records of an earlier process, file by file.
func (f *fileStore) recover() error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	names, err := disk.List(f.dir, fileSuffix)
	if err != nil {
		return err
	}
	type found struct {
		hour uint32
		path string
	}
	var list []found
	for _, path := range names {
		hour, err := strconv.ParseUint(strings.TrimSuffix(filepath.Base(path), fileSuffix), 10, 32)
		if err != nil {
			f.log.Warn().Str("file", path).Msg("a file among the idempotency keys is not one of ours; it is left alone")
			continue
		}
		list = append(list, found{uint32(hour), path})
	}
	slices.SortFunc(list, func(a, b found) int { return cmp.Compare(a.hour, b.hour) })
	nowMs := f.now() / 1e6
	for i, one := range list {
		if f.past(one.hour, nowMs) {
			if err := os.Remove(one.path); err != nil {
				return err
			}
			continue
		}
		if err := f.recoverFile(one.hour, one.path, i == len(list)-1); err != nil {
			return err
		}
	}
	return nil
}

// recoverFile puts the records of a file into the index. The newest may have a
// torn end, which is cut off.
func (f *fileStore) recoverFile(hour uint32, path string, newest bool) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	k := newHourFile(hour, file)
	f.hours[hour], f.last = k, k
	info, err := file.Stat()
	if err != nil {
		return err
	}
	k.end, err = scan(file, info.Size(), newest, func(r *record, at int64) { f.put(r, at, k) })
	if err != nil {
		return err
	}
	if k.end < info.Size() {
		if !newest {
			f.log.Error().Str("file", path).Int64("from", k.end).
				Msg("a file of idempotency keys is damaged; the keys behind the damage are not known any more")
		} else if err := f.restart(k); err != nil {
			return err
		}
	}
	k.synced = 0
	return nil
}

// restart cuts a file off behind its last whole record.
func (f *fileStore) restart(k *hourFile) error {
	if k.end < int64(len(fileMagic)) {
		if _, err := k.file.WriteAt([]byte(fileMagic), 0); err != nil {
			return err
		}
		k.end = int64(len(fileMagic))
	}
	return k.file.Truncate(k.end)
}

// scan reads the heads of all records up to the first that is torn or
// damaged, whose place it gives. Bodies are only read with bodies set.
func scan(file io.ReadSeeker, length int64, bodies bool, each func(*record, int64)) (end int64, err error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	in := bufio.NewReaderSize(file, 64<<10)
	magic := make([]byte, len(fileMagic))
	if _, err := io.ReadFull(in, magic); err != nil || string(magic) != fileMagic {
		return 0, torn(err)
	}
	end = int64(len(fileMagic))
	head, sum := make([]byte, ownedSize), crc32.New(castagnoli)
	var r record
	for {
		if _, err := io.ReadFull(in, head[:headSize]); err != nil {
			return end, torn(err)
		}
		size := headIn(head)
		if _, err := io.ReadFull(in, head[headSize:size]); err != nil || !r.readHead(head[:size]) {
			return end, torn(err)
		}
		next := end + r.stored()
		if next > length {
			return end, nil
		}
		switch {
		case bodies:
			sum.Reset()
			if _, err := io.CopyN(sum, in, int64(r.size)); err != nil || sum.Sum32() != r.sum {
				return end, torn(err)
			}
		case int(r.size) <= in.Buffered():
			if _, err := in.Discard(int(r.size)); err != nil {
				return end, torn(err)
			}
		default:
			if _, err := file.Seek(next, io.SeekStart); err != nil {
				return end, err
			}
			in.Reset(file)
		}
		each(&r, end)
		end = next
	}
}

// torn drops the errors of a torn end, which is the end of the written records.
func torn(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

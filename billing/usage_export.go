package billing

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"farebox/billing/calendar"
	"farebox/billing/disk"
	"farebox/billing/journal"
	"farebox/billing/money"
	"farebox/billing/store"
	"farebox/config"
)

// ExportedRequest is a line of an export: a request that was charged, or another movement of its
// account. It has no secret and no text of a client.
type ExportedRequest struct {
	At        time.Time      `json:"at"`   // its end
	Type      string         `json:"type"` // charge, refund, debt (that was paid) or waiver
	Account   string         `json:"account"`
	Key       string         `json:"key,omitempty"`
	Model     string         `json:"model,omitempty"`
	Upstream  string         `json:"upstream,omitempty"` // that answered
	Request   string         `json:"request,omitempty"`
	Status    uint16         `json:"status,omitempty"`
	TookMs    uint32         `json:"took_ms,omitempty"`
	Lines     []ExportedLine `json:"lines"`
	Debt      Nano           `json:"debt,omitzero"`      // the debt from it
	Shortfall Nano           `json:"shortfall,omitzero"` // cost delivered and not charged
}

// ExportedLine is the cost of one line in one currency. Price is that of a million where Kind is
// counted by the million.
type ExportedLine struct {
	SKU      string      `json:"sku"`
	Units    int64       `json:"units"`
	Price    json.Number `json:"price"`
	Currency string      `json:"currency"`
	Amount   Nano        `json:"amount"` // negative: given back
}

var exportedTypes = [...]string{journal.Charged: "charge", journal.Refunded: "refund", journal.Repaid: "debt",
	journal.Waived: "waiver"}

func exported(n *store.UsageNames, r *journal.Record) *ExportedRequest {
	e := &ExportedRequest{At: time.Unix(0, r.TimeNs).UTC(), Type: exportedTypes[r.Moved], Account: n.Account,
		Key: n.Keys[r.Key], Model: n.Models[r.Model], Upstream: n.Upstreams[r.Upstream], Status: r.Status, TookMs: r.TookMs, Debt: r.Debt, Shortfall: r.Shortfall,
		Lines: []ExportedLine{}}
	if r.RequestID != ([16]byte{}) {
		e.Request = hex.EncodeToString(r.RequestID[:])
	}
	var s journal.Shares
	r.Spread(&s)
	sold, sign := r.Sold(), r.Moved.Sign()
	for _, x := range s.All() {
		e.Lines = append(e.Lines, ExportedLine{SKU: x.Kind.SKU(e.Model), Units: sign * x.Units,
			Price: json.Number(x.Kind.AppendPrice(nil, sold[x.Line].Price)), Currency: money.SpendOrder[x.Place].String(),
			Amount: Nano(sign) * x.Amount})
	}
	return e
}

// Bucket keeps files by their names.
type Bucket interface {
	// Name is the place, for operators.
	Name() string
	// Add copies a file to a name, and replaces a file of that name.
	Add(ctx context.Context, path, name string) error
	// Open reads a file; [fs.ErrNotExist]: it is not there.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
}

// exports is where files of days are kept, each under a name that it has for ever.
type exports interface {
	name() string
	// drafts is the folder in which files are written before they have their names.
	drafts() (string, error)
	open(name string) (io.ReadCloser, error)
	// add gives a draft a name that no file has.
	add(draft, name string) error
}

type exportFolder string

func (f exportFolder) name() string { return string(f) }

func (f exportFolder) drafts() (string, error) { return string(f), os.MkdirAll(string(f), 0o700) }

func (f exportFolder) open(name string) (io.ReadCloser, error) {
	return os.Open(filepath.Join(string(f), name))
}

func (f exportFolder) add(draft, name string) error {
	if err := os.Rename(draft, filepath.Join(string(f), name)); err != nil {
		return err
	}
	return disk.Sync(string(f))
}

type exportBucket struct {
	Bucket
	ctx context.Context // ends with the ledger
	dir string
}

func (b *exportBucket) name() string { return b.Name() }

func (b *exportBucket) drafts() (string, error) { return b.dir, nil }

func (b *exportBucket) open(name string) (io.ReadCloser, error) { return b.Open(b.ctx, name) }

func (b *exportBucket) add(draft, name string) error { return b.Add(b.ctx, draft, name) }

// exportsTo is where a config exports to; nil: nowhere.
func (r *retention) exportsTo(ctx context.Context, usage *config.Usage) (exports, error) {
	switch {
	case usage.Export != "":
		return exportFolder(usage.Export), nil
	case usage.ExportS3 == nil:
		return nil, nil
	case r.l.buckets == nil:
		return nil, errors.New("this process cannot use buckets")
	}
	b, err := r.l.buckets("usage.export_s3", usage.ExportS3)
	if err != nil {
		return nil, err
	}
	return &exportBucket{b, ctx, r.l.dir}, nil
}

// export ensures that the requests of a day are in a file, which was read back.
func (r *retention) export(day int32, to exports) (*store.ExportRow, error) {
	row, err := r.l.store.Export(day)
	if err != nil {
		return nil, err
	}
	if row != nil && !row.Pruned {
		return row, r.there(row, to)
	}
	next := &store.ExportRow{Day: day, Part: 1}
	if row != nil {
		next.Part = row.Part + 1 // of a node that was away
	}
	draft, err := r.write(next, to)
	if err != nil {
		return nil, fmt.Errorf("cannot export to %s: %w", to.name(), err)
	}
	defer func() { _ = os.Remove(draft) }()
	if err := place(next, draft, to); err != nil {
		return nil, fmt.Errorf("cannot export to %s: %w", to.name(), err)
	}
	if err := readBack(next, to); err != nil {
		return nil, err
	}
	return next, r.l.store.AddExport(next)
}

// there checks a file that was written before. It may be in a folder of another node.
func (r *retention) there(row *store.ExportRow, to exports) error {
	err := readBack(row, to)
	if errors.Is(err, fs.ErrNotExist) && row.Node != r.l.store.Node() {
		return nil
	}
	return err
}

// exportPace is after how many requests an export pauses.
const exportPace = 1000

// write writes a file under a name of its own, and fills in its fields of the row.
func (r *retention) write(row *store.ExportRow, to exports) (draft string, err error) {
	folder, err := to.drafts()
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp(folder, ".usage-*")
	if err != nil {
		return "", err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	sum := sha256.New()
	out := bufio.NewWriter(io.MultiWriter(f, sum))
	zip := gzip.NewWriter(out)
	lines := json.NewEncoder(zip)
	began := time.Now()
	row.Bounds, err = r.l.store.UsageOf(row.Day, func(n *store.UsageNames, _ uint32, rec *journal.Record) error {
		if row.Requests++; row.Requests%exportPace == 0 {
			if err := r.pause(began); err != nil {
				return err
			}
			began = time.Now()
		}
		return lines.Encode(exported(n, rec))
	})
	if err == nil {
		err = errors.Join(zip.Close(), out.Flush(), f.Sync())
	}
	row.Digest = sum.Sum(nil)
	return f.Name(), err
}

// exportMost is how many parts a day has at most.
const exportMost = 1000

// place gives the file its name. One that is there stays, and is used if it is the same.
func place(row *store.ExportRow, draft string, to exports) error {
	for ; row.Part <= exportMost; row.Part++ {
		row.Name = "usage-" + calendar.DateText(row.Day) + ".jsonl.gz"
		if row.Part > 1 {
			row.Name = fmt.Sprintf("usage-%s.%d.jsonl.gz", calendar.DateText(row.Day), row.Part)
		}
		f, err := to.open(row.Name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return to.add(draft, row.Name)
		case err != nil:
			return err
		}
		_ = f.Close()
		if readBack(row, to) == nil {
			return nil
		}
	}
	return fmt.Errorf("%s has %d files of %s that differ", to.name(), exportMost, calendar.DateText(row.Day))
}

// readBack compares a file with the written rows.
func readBack(row *store.ExportRow, to exports) error {
	f, err := to.open(row.Name)
	if err != nil {
		return fmt.Errorf("the export is not there; bring it back, or export nothing: %w", err)
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	zip, err := gzip.NewReader(io.TeeReader(f, sum))
	var lines int64
	if err == nil {
		lines, err = countLines(zip)
	}
	if err == nil {
		_, err = io.Copy(sum, f)
	}
	if err != nil {
		return fmt.Errorf("cannot read the export %s back from %s: %w", row.Name, to.name(), err)
	}
	if lines != row.Requests || !bytes.Equal(sum.Sum(nil), row.Digest) {
		return fmt.Errorf("the export %s in %s is not what was written: bring that file back", row.Name, to.name())
	}
	return nil
}

func countLines(r io.Reader) (n int64, err error) {
	b := make([]byte, 64<<10)
	for {
		got, err := r.Read(b)
		n += int64(bytes.Count(b[:got], []byte{'\n'}))
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

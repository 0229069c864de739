package billing

import (
	"bufio"
	"bytes"
	"compress/gzip"
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
)

// ExportedRequest is a line of an export: a request that was charged, or what moved its account
// besides. It has no secret and no text of a client.
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
	Debt      Nano           `json:"debt,omitzero"`      // what it left owed
	Shortfall Nano           `json:"shortfall,omitzero"` // what was delivered and not charged
}

// ExportedLine is what one line cost in one currency. Price is that of a million where Kind is
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

// export sees to it that the requests of a day are in a file, which was read back.
func (r *retention) export(day int32, folder string) (*store.ExportRow, error) {
	row, err := r.l.store.Export(day)
	if err != nil {
		return nil, err
	}
	if row != nil && !row.Pruned {
		return row, r.there(row, folder)
	}
	next := &store.ExportRow{Day: day, Part: 1}
	if row != nil {
		next.Part = row.Part + 1 // of a node that was away
	}
	temp, err := r.write(next, folder)
	if err != nil {
		return nil, fmt.Errorf("cannot export to %s: %w", folder, err)
	}
	defer func() { _ = os.Remove(temp) }()
	if err := place(next, temp, folder); err != nil {
		return nil, fmt.Errorf("cannot export to %s: %w", folder, err)
	}
	if err := readBack(next, folder); err != nil {
		return nil, err
	}
	return next, r.l.store.AddExport(next)
}

// there checks a file that was written before. It may be in a folder of another node.
func (r *retention) there(row *store.ExportRow, folder string) error {
	err := readBack(row, folder)
	if errors.Is(err, fs.ErrNotExist) && row.Node != r.l.store.Node() {
		return nil
	}
	return err
}

// exportPace is after how many requests an export pauses.
const exportPace = 1000

// write writes a file under a name of its own, and fills in what the row says of it.
func (r *retention) write(row *store.ExportRow, folder string) (temp string, err error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
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
func place(row *store.ExportRow, temp, folder string) error {
	for ; row.Part <= exportMost; row.Part++ {
		row.Name = "usage-" + calendar.DateText(row.Day) + ".jsonl.gz"
		if row.Part > 1 {
			row.Name = fmt.Sprintf("usage-%s.%d.jsonl.gz", calendar.DateText(row.Day), row.Part)
		}
		path := filepath.Join(folder, row.Name)
		switch _, err := os.Lstat(path); {
		case errors.Is(err, fs.ErrNotExist):
			if err := os.Rename(temp, path); err != nil {
				return err
			}
			return disk.Sync(folder)
		case err != nil:
			return err
		}
		if readBack(row, folder) == nil {
			return nil
		}
	}
	return fmt.Errorf("%s has %d files of %s that differ", folder, exportMost, calendar.DateText(row.Day))
}

// readBack compares a file with what was written.
func readBack(row *store.ExportRow, folder string) error {
	path := filepath.Join(folder, row.Name)
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("the export is not there; bring it back, or leave usage.export out: %w", err)
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
		return fmt.Errorf("cannot read the export %s back: %w", path, err)
	}
	if lines != row.Requests || !bytes.Equal(sum.Sum(nil), row.Digest) {
		return fmt.Errorf("the export %s is not what was written: bring that file back", path)
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

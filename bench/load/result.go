package load

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// Result is the result of one run.
type Result struct {
	Name        string    `json:"name,omitempty"`
	URL         string    `json:"url"`
	Model       string    `json:"model"`
	Stream      bool      `json:"stream"`
	BodyBytes   int       `json:"body_bytes"`
	Rate        float64   `json:"rate"` // wanted arrivals a second; 0: closed
	Connections int       `json:"connections"`
	Started     time.Time `json:"started"`
	Seconds     float64   `json:"seconds"`

	Requests  int64            `json:"requests"` // ended well
	Aborted   int64            `json:"aborted"`  // left by us on purpose
	Failed    int64            `json:"failed"`
	Errors    map[string]int64 `json:"errors,omitempty"`
	Unsent    int64            `json:"unsent"` // arrivals that found no free connection to the end
	PerSecond float64          `json:"requests_per_second"`

	// Requests still without an answer at the end are in no histogram.
	Unfinished int64   `json:"unfinished"`
	OldestUs   float64 `json:"unfinished_oldest_us"`

	Events          int64   `json:"events"`
	EventsPerSecond float64 `json:"events_per_second"`
	BytesIn         int64   `json:"bytes_in"`

	Latency  Distribution `json:"latency"`          // from the intended start to the last byte
	First    Distribution `json:"first_event"`      // to the first event (streams) or the first byte of the body
	Gap      Distribution `json:"gap"`              // between events
	Delay    Distribution `json:"event_delay"`      // from the simulated upstream's write to our read
	Lateness Distribution `json:"arrival_lateness"` // of the generator itself

	Series  []Second `json:"series,omitempty"`
	Process *Usage   `json:"process,omitempty"`
}

// Second is one second of a run.
type Second struct {
	At       int     `json:"at"`
	Requests int64   `json:"requests"`
	SumUs    float64 `json:"-"`
	MeanUs   float64 `json:"mean_us"`
	MaxUs    float64 `json:"max_us"`
}

// Distribution is a histogram as its percentiles, in microseconds.
type Distribution struct {
	Count  int64        `json:"count"`
	MeanUs float64      `json:"mean_us"`
	MinUs  float64      `json:"min_us"`
	P50Us  float64      `json:"p50_us"`
	P90Us  float64      `json:"p90_us"`
	P99Us  float64      `json:"p99_us"`
	P999Us float64      `json:"p999_us"`
	MaxUs  float64      `json:"max_us"`
	Curve  [][2]float64 `json:"curve,omitempty"` // percentile, µs
}

// curvePoints are the percentiles of a plot.
var curvePoints = []float64{0, 5, 10, 20, 30, 40, 50, 60, 70, 80, 85, 90, 92.5, 95, 97, 98, 99, 99.5, 99.9, 99.95,
	99.99, 99.999, 100}

func distribution(h *hdr.Histogram) Distribution {
	if h == nil || h.TotalCount() == 0 {
		return Distribution{}
	}
	at := func(p float64) float64 { return float64(h.ValueAtQuantile(p)) / 1e3 }
	d := Distribution{
		Count: h.TotalCount(), MeanUs: h.Mean() / 1e3, MinUs: float64(h.Min()) / 1e3, MaxUs: float64(h.Max()) / 1e3,
		P50Us: at(50), P90Us: at(90), P99Us: at(99), P999Us: at(99.9),
	}
	for _, p := range curvePoints {
		d.Curve = append(d.Curve, [2]float64{p, at(p)})
	}
	return d
}

func (r *recorder) result(o Options, begun time.Time, elapsed time.Duration) *Result {
	res := &Result{
		URL: o.URL, Model: o.Model, Stream: o.Stream, BodyBytes: o.BodyBytes, Rate: o.Rate, Connections: o.Connections,
		Started: begun, Seconds: elapsed.Seconds(),
		Requests: r.finished, Aborted: r.aborted, Errors: r.errors, Events: r.events, BytesIn: r.bytes,
		Latency: distribution(r.latency), First: distribution(r.first), Gap: distribution(r.gaps),
		Delay: distribution(r.delays),
	}
	for _, n := range r.errors {
		res.Failed += n
	}
	if s := elapsed.Seconds(); s > 0 {
		res.PerSecond, res.EventsPerSecond = float64(r.finished)/s, float64(r.events)/s
	}
	whole := int(elapsed / time.Second)
	for _, s := range r.seconds {
		if s.At >= whole {
			break // the last second is not a whole one
		}
		if s.Requests > 0 {
			s.MeanUs = s.SumUs / float64(s.Requests)
		}
		res.Series = append(res.Series, s)
	}
	return res
}

// WriteJSON writes v, indented, to a file; folders are made.
func WriteJSON(path string, v any) error {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

package compare

import (
	"slices"
	"time"

	"farebox/bench/load"
	"farebox/bench/upstream"
)

// Scenario is one kind of traffic that every contender gets in every round.
type Scenario struct {
	Name    string
	Title   string
	Load    load.Options // URL, Key and PIDs are filled in per contender
	Unit    string       // the unit that CPU is counted per: request or event
	Warmup  time.Duration
	Measure time.Duration
	Direct  bool   // also measured without a gateway
	Path    string // below a contender's address; default: chat
	Ours    string // farebox's own path, where it has another
	Bodies  bool   // large bodies: nginx also with buffers for them
	Streams bool   // answers are passed on as they arrive, though they are not events
	Rounds  int
	// Body makes Load.Body where that is large: the command line asks for the
	// names of scenarios in every process.
	Body func() []byte
}

const (
	speechPath = "/audio/speech"
	jsonModel  = "bench-1k"
)

const (
	jsonTokens   = 256
	streamTokens = 1 << 20

	pacedStreams = 400
	burstStreams = 64
	jsonConns    = 64
	bigConns     = 16
	callConns    = 32
	batchConns   = 8
	pictureConns = 8
	speechConns  = 8
	openRate     = 2000
	shortRate    = 500
	speechRate   = 200
)

// scenarios of a run; quick ones are shorter, not different.
func scenarios(quick bool) []Scenario {
	measure, warm, rounds := 1500*time.Millisecond, 500*time.Millisecond, 5
	if quick {
		measure, warm, rounds = 400*time.Millisecond, 100*time.Millisecond, 3
	}
	whole := func(size, conns int, rate float64) load.Options {
		return load.Options{Model: jsonModel, BodyBytes: size, MaxTokens: jsonTokens, Connections: conns, Rate: rate}
	}
	stream := func(model string, conns int, rate float64, ramp time.Duration) load.Options {
		return load.Options{Model: model, Stream: true, MaxTokens: streamTokens, Connections: conns, Rate: rate,
			Ramp: ramp}
	}
	body := func(text []byte, conns int) load.Options {
		return load.Options{Body: text, Connections: conns, ReadBuffer: 64 << 10}
	}
	speech := func(text []byte, conns int, rate float64) load.Options {
		return load.Options{Body: text, Connections: conns, Rate: rate, FirstByte: true, ReadBuffer: 64 << 10}
	}
	list := []Scenario{
		{Name: "json_1k", Title: "chat, 1 KB, as fast as 64 connections go", Load: whole(1<<10, jsonConns, 0),
			Direct: true},
		{Name: "json_1k_open", Title: "chat, 1 KB, 2,000 requests a second", Load: whole(1<<10, jsonConns, openRate),
			Direct: true},
		{Name: "json_32k", Title: "chat, 32 KB request", Load: whole(32<<10, jsonConns, 0)},
		{Name: "json_256k", Title: "chat, 256 KB request", Load: whole(256<<10, bigConns, 0), Bodies: true},
		{Name: "json_1m", Title: "chat, 1 MB request", Load: whole(1<<20, bigConns, 0), Bodies: true},
		{Name: "sse_first", Title: "streams of 10 events, 500 new ones a second",
			Load: stream("bench-sse-short", jsonConns, shortRate, 0), Direct: true},
		{Name: "sse_paced", Title: "400 streams of 50 events a second",
			Load: stream("bench-sse-paced", pacedStreams, 0, measure/2), Unit: "event", Direct: true,
			Warmup: measure / 2},
		{Name: "sse_burst", Title: "64 streams, 8 events a write",
			Load: stream("bench-sse-burst", burstStreams, 0, warm), Unit: "event", Direct: true},
		{Name: "rpc_single", Title: "JSON-RPC, single calls, as fast as 32 connections go",
			Load: body(upstream.BenchRPCCall, callConns), Path: rpcPath, Ours: fareboxRPC, Direct: true},
		{Name: "rpc_batch", Title: "JSON-RPC, batches of 100, as fast as 8 connections go",
			Load: body(upstream.BenchRPCCalls, batchConns), Path: rpcPath, Ours: fareboxRPC, Direct: true},
		{Name: "image_answer", Title: "pictures, 1 MB of base64 in the answer",
			Load: body(upstream.BenchImagePrompt, pictureConns), Path: "/images/generations", Ours: "/image/generate",
			Direct: true},
		{Name: "image_upload", Title: "edits of pictures, 1 MB of base64 in the request", Load: body(nil, pictureConns),
			Body: upstream.BenchImageEdit, Path: "/images/edits", Ours: "/image/edit", Bodies: true},
		{Name: "speech_first", Title: "speech as it is made, 10 pieces in 50 ms, 200 new ones a second",
			Load: speech(upstream.BenchPaced, jsonConns, speechRate), Path: speechPath, Streams: true, Direct: true},
		{Name: "speech_1m", Title: "speech, 1 MB of sound, as fast as 8 connections go",
			Load: speech(upstream.BenchSpeech, speechConns, 0), Path: speechPath, Streams: true, Direct: true},
	}
	for i := range list {
		s := &list[i]
		s.Measure, s.Rounds = measure, rounds
		s.Warmup += warm
		if s.Unit == "" {
			s.Unit = "request"
		}
		s.Load.Timeout = 20 * time.Second
	}
	return list
}

// Figures are the medians of a contender in a scenario; µs unless the name
// says otherwise.
type Figures struct {
	Runs        int     `json:"runs"`
	PerSecond   float64 `json:"requests_per_second"`
	Events      float64 `json:"events_per_second,omitempty"`
	CPUUs       float64 `json:"cpu_us"` // per unit; 0 for direct
	CPUShare    float64 `json:"cpu_share"`
	P50Us       float64 `json:"p50_us"`
	P99Us       float64 `json:"p99_us"`
	FirstP50Us  float64 `json:"first_p50_us,omitempty"`
	FirstP99Us  float64 `json:"first_p99_us,omitempty"`
	DelayP50Us  float64 `json:"delay_p50_us,omitempty"`
	DelayP99Us  float64 `json:"delay_p99_us,omitempty"`
	PeakBytes   float64 `json:"rss_peak_bytes,omitempty"`
	OtherShare  float64 `json:"other_cpu_share"`
	Failed      int64   `json:"failed"`
	Unfinished  int64   `json:"unfinished"`
	FirstErrors string  `json:"errors,omitempty"`
}

func figures(unit string, runs []*load.Result) Figures {
	pick := func(f func(*load.Result) float64) float64 {
		values := make([]float64, 0, len(runs))
		for _, r := range runs {
			values = append(values, f(r))
		}
		return median(values)
	}
	usage := func(f func(*load.Usage) float64) float64 {
		return pick(func(r *load.Result) float64 {
			if r.Process == nil {
				return 0
			}
			return f(r.Process)
		})
	}
	out := Figures{
		Runs:      len(runs),
		PerSecond: pick(func(r *load.Result) float64 { return r.PerSecond }),
		Events:    pick(func(r *load.Result) float64 { return r.EventsPerSecond }),
		P50Us:     pick(func(r *load.Result) float64 { return r.Latency.P50Us }),
		P99Us:     pick(func(r *load.Result) float64 { return r.Latency.P99Us }),

		FirstP50Us: pick(func(r *load.Result) float64 { return r.First.P50Us }),
		FirstP99Us: pick(func(r *load.Result) float64 { return r.First.P99Us }),
		DelayP50Us: pick(func(r *load.Result) float64 { return r.Delay.P50Us }),
		DelayP99Us: pick(func(r *load.Result) float64 { return r.Delay.P99Us }),

		CPUShare:   usage(func(u *load.Usage) float64 { return u.CPUShare }),
		OtherShare: usage(func(u *load.Usage) float64 { return u.OtherShare }),
		PeakBytes:  usage(func(u *load.Usage) float64 { return float64(u.PeakBytes) }),
		CPUUs: usage(func(u *load.Usage) float64 {
			if unit == "event" {
				return u.PerEventUs
			}
			return u.PerRequestUs
		}),
	}
	for _, r := range runs {
		out.Failed += r.Failed
		out.Unfinished += r.Unsent
		for kind := range r.Errors {
			out.FirstErrors = kind
		}
	}
	return out
}

// takes: contender name has a part in this scenario.
func (s *Scenario) takes(name string) bool {
	switch name {
	case "direct":
		return s.Direct
	case bodyContender:
		return s.Bodies
	}
	return s.Path == "" || slices.Contains(Contenders, name) // rivals have chat
}

package compare

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"farebox/bench/load"
)

// Rate is the latency of 1 KB chat requests that arrive at a constant rate, even if earlier
// ones are not answered yet. It counts from the time at which a request was due.
type Rate struct {
	Wanted     float64 `json:"rate"`
	PerSecond  float64 `json:"requests_per_second"` // answered
	P50Us      float64 `json:"p50_us"`
	P99Us      float64 `json:"p99_us"`
	CPUShare   float64 `json:"cpu_share"`
	CPUUs      float64 `json:"cpu_us"` // a request; 0 for direct
	LateUs     float64 `json:"generator_late_p99_us"`
	Failed     int64   `json:"failed"`
	OtherShare float64 `json:"other_cpu_share"`
	Saturated  bool    `json:"saturated"` // it answers less than arrives; no higher rate is measured
}

const (
	// leastShare of the arrivals is answered by a gateway that keeps up.
	leastShare = 0.95
	// wantedArrivals make a 99th percentile of four; low rates take up to so many times as long for them.
	wantedArrivals = 400
	mostTimes      = 4
)

// felt are the rates whose processor time and latency customers and operators notice: most
// gateways are far from busy.
var felt = []float64{100, 1000, 5000}

// ratePlan is the rates, and how long each is measured. Rivals may need low ones.
func ratePlan(quick, rivals bool) (rates []float64, warmup, measure time.Duration) {
	rates, warmup, measure = append([]float64{2000, 8000, 12000, 16000, 24000, 32000}, felt...), 250*time.Millisecond, time.Second
	low := []float64{50, 200, 500}
	if quick {
		rates, warmup, measure = append([]float64{16000}, felt...), 100*time.Millisecond, 400*time.Millisecond
		low = nil
	}
	if rivals {
		rates = append(rates, low...)
	}
	slices.Sort(rates)
	return rates, warmup, measure
}

func rateTime(rate float64, measure time.Duration) time.Duration {
	return max(measure, min(mostTimes*measure, time.Duration(wantedArrivals/rate*float64(time.Second))))
}

// rates raises the rate for all contenders in turn. One that no longer keeps up drops out.
func (p *plan) rates(ctx context.Context, gateways map[string]*gateway) error {
	rates, warmup, measure := ratePlan(p.o.Quick, len(p.l.rivals) > 0)
	out := map[string]bool{}
	for _, rate := range rates {
		s := Scenario{Name: ratesName, Warmup: warmup, Measure: rateTime(rate, measure), Load: load.Options{
			Model: jsonModel, MaxTokens: jsonTokens, Connections: jsonConns, Rate: rate, Timeout: 20 * time.Second}}
		for _, name := range p.but(bodyContender) {
			p.step(0, fmt.Sprintf("%s, %g a second: %s", ratesName, rate, name))
			if !out[name] {
				r, err := p.one(ctx, s, gateways[name])
				if err == nil {
					at := rateOf(r)
					p.c.Rates[name], out[name] = append(p.c.Rates[name], at), at.Saturated
				} else if err := p.failed(ctx, ratesName, name, err); err != nil {
					return err
				} else {
					out[name] = true
				}
			}
			p.step((s.Warmup + s.Measure + settleTime).Seconds(), ratesName)
		}
	}
	return nil
}

func rateOf(r *load.Result) Rate {
	at := Rate{Wanted: r.Rate, PerSecond: r.PerSecond, P50Us: r.Latency.P50Us, P99Us: r.Latency.P99Us,
		LateUs: r.Lateness.P99Us, Failed: r.Failed, Saturated: r.PerSecond < leastShare*r.Rate}
	if r.Process != nil {
		at.CPUShare, at.CPUUs, at.OtherShare = r.Process.CPUShare, r.Process.PerRequestUs, r.Process.OtherShare
	}
	return at
}

// kept is the last rate that the contender keeps up with.
func kept(rates []Rate) (last Rate) {
	for _, r := range rates {
		if !r.Saturated {
			last = r
		}
	}
	return last
}

// at is the result of a contender at a rate that it kept up with.
func (c *Comparison) at(name string, rate float64) (Rate, bool) {
	for _, r := range c.Rates[name] {
		if r.Wanted == rate && !r.Saturated {
			return r, true
		}
	}
	return Rate{}, false
}

func (c *Comparison) printRates(out io.Writer) {
	for _, rate := range felt {
		base, _ := c.at(anchor, rate)
		c.printTable(out, ratesName, fmt.Sprintf("rates: chat, 1 KB, %g requests a second", rate),
			"CPU µs/request\tx nginx\tp50 / p99 µs", func(name string) string {
				r, ok := c.at(name, rate)
				if !ok {
					return ""
				}
				return fmt.Sprintf("%s\t%s\t%.0f / %.0f", micro(r.CPUUs), ratio(r.CPUUs, base.CPUUs), r.P50Us, r.P99Us)
			})
	}
	c.printTable(out, ratesName, "rates: chat, 1 KB, the highest constant rate of arrivals that is kept up with, of those measured",
		"req/s\tp50 / p99 µs\tcore", func(name string) string {
			r := kept(c.Rates[name])
			switch {
			case len(c.Rates[name]) == 0:
				return ""
			case r.Wanted == 0:
				return "none\t-\t-"
			}
			return fmt.Sprintf("%g\t%.0f / %.0f\t%.0f %%", r.Wanted, r.P50Us, r.P99Us, 100*r.CPUShare)
		})
}

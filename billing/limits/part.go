package limits

import (
	"math/bits"

	"farebox/billing/window"
	"farebox/config"
)

// part is the share of a window that a node lets through while it cannot ask
// Redis: the limit divided by the number of live nodes.
//
// It begins with no more than 1/nodes of that part, whatever was used before:
// all nodes together then go at most limit/nodes beyond the use that Redis would have
// let through (nodes x limit/nodes²), however unevenly they used the limit so
// far. From there on it refills at limit/nodes a period. Days and months refill
// the same way, evenly over their length.
type part struct {
	at [partLimits]int64 // theoretical arrival times, Instant.Mono
}

// The limits of a part.
const (
	partMinute = iota
	partHour
	partDay
	partMonth
	partTokens
	partLimits
)

type partLimit struct {
	index    int
	name     string
	limit    int64
	n        int64 // units that a request takes
	periodNs int64
	aheadNs  int64 // how far ahead of now the time of arrival of the whole limit may be
}

func partsOf(r *config.Rate, tokens int64) [partLimits]partLimit {
	_, ahead := window.Burst(r)
	return [partLimits]partLimit{
		{partMinute, "RPM", r.RPM, 1, window.MinuteNs, ahead},
		{partHour, "RPH", r.RPH, 1, window.HourNs, window.HourNs},
		{partDay, "RPD", r.RPD, 1, window.DayNs, window.DayNs},
		{partMonth, "RPMON", r.RPMon, 1, 30 * window.DayNs, 30 * window.DayNs},
		{partTokens, "TPM", r.TPM, tokens, window.MinuteNs, window.MinuteNs},
	}
}

// check says whether a request passes; enteredNs is when Redis was lost.
func (p *part) check(r *config.Rate, now window.Instant, enteredNs, nodes, tokens int64, refusal *window.Refusal) bool {
	for _, l := range partsOf(r, tokens) {
		if l.limit <= 0 || l.n <= 0 {
			continue
		}
		// A request larger than the whole part passes alone, or it never would.
		take := min(partCost(l.n, l.limit, l.periodNs, nodes), l.aheadNs)
		if at := max(p.from(l, enteredNs, nodes), now.Mono); at+take-now.Mono > l.aheadNs {
			return refusal.After(l.name, l.limit, now, at+take-l.aheadNs, at)
		}
	}
	return true
}

// commit takes the use that check allowed.
func (p *part) commit(r *config.Rate, now, enteredNs, nodes, tokens int64) {
	for _, l := range partsOf(r, tokens) {
		if l.limit > 0 && l.n > 0 {
			p.at[l.index] = max(p.from(l, enteredNs, nodes), now) + partCost(l.n, l.limit, l.periodNs, nodes)
		}
	}
}

// correct replaces an estimate of tokens by the real use.
func (p *part) correct(r *config.Rate, now, nodes, tokens int64) {
	if r.TPM <= 0 || p.at[partTokens] <= now {
		return
	}
	if tokens >= 0 {
		p.at[partTokens] += partCost(tokens, r.TPM, window.MinuteNs, nodes)
		return
	}
	p.at[partTokens] = max(now, p.at[partTokens]-partCost(-tokens, r.TPM, window.MinuteNs, nodes))
}

// from is the time of arrival, not below the time that leaves 1/nodes of the part when
// Redis was lost.
func (p *part) from(l partLimit, enteredNs, nodes int64) int64 {
	return max(p.at[l.index], enteredNs+l.aheadNs-l.aheadNs/nodes)
}

// partCost is the time for n units of limit/nodes a period.
func partCost(n, limit, period, nodes int64) int64 {
	most := 4 * period
	hi, lo := bits.Mul64(uint64(n)*uint64(nodes), uint64(period))
	if hi >= uint64(limit) {
		return most
	}
	q, _ := bits.Div64(hi, lo, uint64(limit))
	return int64(min(q, uint64(most)))
}

package tee

import (
	"fmt"
	"io"
	"strconv"
)

// writeMetrics writes how the enclaves stand. Nothing here names a key or a machine.
func (v *view) writeMetrics(w io.Writer) {
	for _, e := range v.each {
		s := e.Standing()
		labels := "model=" + strconv.Quote(e.Model) + ",upstream=" + strconv.Quote(e.Name)
		verified := 0
		if v.watch.Verified(e) {
			verified = 1
		}
		fmt.Fprintf(w, "farebox_tee_verified{%s} %d\n", labels, verified)
		if !s.At.IsZero() {
			fmt.Fprintf(w, "farebox_tee_attested_timestamp_seconds{%s} %d\n", labels, s.At.Unix())
			fmt.Fprintf(w, "farebox_tee_turned_timestamp_seconds{%s} %d\n", labels, s.Turned.Unix())
		}
		for _, name := range s.Failed {
			fmt.Fprintf(w, "farebox_tee_failed_check{%s,check=%q} 1\n", labels, name)
		}
		for _, name := range s.NotChecked {
			fmt.Fprintf(w, "farebox_tee_not_checked{%s,check=%q} 1\n", labels, name)
		}
		keys, plain := e.Counts()
		fmt.Fprintf(w, "farebox_tee_proven_keys{%s} %d\nfarebox_tee_plain_answers_total{%s} %d\n", labels, keys, labels, plain)
	}
	fmt.Fprintf(w, "farebox_tee_answers_lost_total %d\n", v.answers.lostSoFar())
	if ends := v.setup.Published.Ends(); !ends.IsZero() {
		fmt.Fprintf(w, "farebox_tee_collateral_ends_timestamp_seconds %d\n", ends.Unix())
	}
}

package routes

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"farebox/config"
)

// An upstream that invents codes makes neither the log nor its memory grow.
func TestKindsOfFailuresAreBounded(t *testing.T) {
	var out bytes.Buffer
	s := sampler{log: zerolog.New(&out)}
	s.configure(&config.Log{SampleAbove: 1, SameErrors: 2})
	logged := 0
	for i := range 10_000 {
		if s.takeFailure(failure{502, fmt.Sprint(i), ""}) {
			logged++
		}
	}
	if n := len(s.failures); n > maxFailureKinds+1 || logged > maxFailureKinds+2 {
		t.Errorf("%d kinds, %d lines", n, logged)
	}
	s.flush()
	if want := fmt.Sprintf(`"count":%d,"code":"other"`, 10_000-logged); !strings.Contains(out.String(), want) {
		t.Errorf("%s is not in %s", want, out.String())
	}
	if !s.takeFailure(failure{502, "", "cut"}) {
		t.Error("after the second no failure is logged")
	}
}

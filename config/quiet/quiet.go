// Package quiet keeps libraries from writing to standard error while the
// program starts: VictoriaMetrics/metrics reports at init on machines without
// pressure files, and every command would begin with that line.
//
// It works because it imports nothing but log and io: Go initialises packages in the order of
// their import paths as soon as their imports are ready, so this one comes before github.com/….
// main gives the log its output back.
package quiet

import (
	"io"
	"log"
)

func init() { log.SetOutput(io.Discard) }

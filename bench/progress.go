package bench

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// bar is a progress bar on a terminal and nothing elsewhere, so that logs hold
// no control characters.
type bar struct{ bar *progressbar.ProgressBar }

const barSteps = 1000

func newBar(out io.Writer, quiet bool) *bar {
	f, ok := out.(*os.File)
	if quiet || !ok || !term.IsTerminal(int(f.Fd())) {
		return &bar{}
	}
	return &bar{progressbar.NewOptions(barSteps,
		progressbar.OptionSetWriter(out), progressbar.OptionSetWidth(30),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish())}
}

func (b *bar) show(done float64, line string) {
	if b.bar == nil {
		return
	}
	b.bar.Describe(line)
	_ = b.bar.Set(int(done * barSteps))
}

func (b *bar) done() {
	if b.bar != nil {
		_ = b.bar.Finish()
	}
}

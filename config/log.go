package config

import (
	"io"
	"os"

	"github.com/rs/zerolog"
	"golang.org/x/term"
)

// Open gives the logger that an operator wants, to standard error.
func (c Log) Open() zerolog.Logger {
	var out io.Writer = os.Stderr
	if c.Format == "console" || (c.Format == "auto" && term.IsTerminal(int(os.Stderr.Fd()))) {
		out = zerolog.ConsoleWriter{Out: os.Stderr, TimeFormat: "15:04:05.000"}
	}
	level, err := zerolog.ParseLevel(c.Level)
	if err != nil {
		level = zerolog.InfoLevel
	}
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	return zerolog.New(out).Level(level).With().Timestamp().Logger()
}

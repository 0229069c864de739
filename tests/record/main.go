// Command record proves that a rebuild changes no behaviour. It is for
// developers and not part of farebox.
//
//	go run -C tests -tags nodynamic ./record -out /tmp/before.rec /tmp/farebox-before
//	go run -C tests -tags nodynamic ./record -out /tmp/after.rec /tmp/farebox-after
//	go run -C tests -tags nodynamic ./record -diff /tmp/before.rec /tmp/after.rec
//
// It starts the binary on fresh ledgers before simulated upstreams that always
// answer alike, sends it some thousand requests of every kind, one at a time
// and in the same order, and writes down the bytes of each answer, the bytes
// that upstreams got, the line in the log, and the output of every command of the
// binary. -diff compares two such recordings byte by byte but for the exceptions of
// normal.go, and ends with status 1 when they differ. -show prints one.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

func main() {
	err := run(os.Args[1:], os.Stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "record: "+err.Error())
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("record", flag.ContinueOnError)
	file := flags.String("out", "", "write the recording of a binary to this file")
	compare := flags.Bool("diff", false, "compare two recordings")
	show := flags.Bool("show", false, "print a recording as it is compared")
	most := flags.Int("most", 20, "with -diff: how many differences are shown")
	skip := flags.String("skip", "",
		"with -diff: parts that are not compared, separated by commas, such as log or stderr")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case *compare && flags.NArg() == 2:
		return compareFiles(out, flags.Arg(0), flags.Arg(1), *most, *skip)
	case *show && flags.NArg() == 1:
		return print(out, flags.Arg(0))
	case *file != "" && flags.NArg() == 1:
		return record(out, flags.Arg(0), *file)
	}
	return errors.New("give -out FILE BINARY, -diff FILE FILE or -show FILE; flags come first")
}

func record(out io.Writer, binary, file string) error {
	l, err := newLab(binary)
	if err != nil {
		return err
	}
	defer l.close()
	if err := l.play(); err != nil {
		return err
	}
	l.rec.End = time.Now()
	if err := l.rec.write(file); err != nil {
		return err
	}
	requests := 0
	for _, e := range l.rec.Entries {
		if e.Parts[0].Name == "sent" {
			requests++
		}
	}
	fmt.Fprintf(out, "%d requests and %d commands in %.1f s\n", requests, len(l.rec.Entries)-requests,
		l.rec.End.Sub(l.rec.Start).Seconds())
	return nil
}

func compareFiles(out io.Writer, first, second string, most int, skipped string) error {
	a, err := readRecording(first)
	if err != nil {
		return err
	}
	b, err := readRecording(second)
	if err != nil {
		return err
	}
	skip := map[string]bool{}
	for _, name := range strings.FieldsFunc(skipped, func(r rune) bool { return r == ',' }) {
		skip[name] = true
	}
	if n := diff(out, a, b, most, skip); n > 0 {
		return fmt.Errorf("%d of %d entries differ", n, len(a.Entries))
	}
	fmt.Fprintf(out, "%d entries, all alike\n", len(a.Entries))
	return nil
}

func print(out io.Writer, file string) error {
	r, err := readRecording(file)
	if err != nil {
		return err
	}
	n := newNormal(r)
	for _, e := range r.Entries {
		e = n.entry(e)
		fmt.Fprintf(out, "== %s\n", e.Name)
		for _, p := range e.Parts {
			fmt.Fprintf(out, "[%s]\n%s\n", p.Name, printable(p.Data))
		}
	}
	return nil
}

// printable is text as it is, and the beginning of anything else quoted.
func printable(b []byte) string {
	for _, c := range b {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' {
			return shown(b)
		}
	}
	return strings.ReplaceAll(string(b), "\r\n", "\n")
}

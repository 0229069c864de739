package config

import (
	"fmt"
	"slices"
	"strings"
)

// Problem is one mistake in a config file.
type Problem struct {
	File         string
	Line, Column int    // from 1; columns count characters
	Path         string // models[2].price.input; empty for the file as a whole
	Excerpt      string // the line and a caret under the place; secrets are masked
	Message      string // what was wrong; what was expected
}

// maxProblems ends the list: a file with more mistakes is of another kind.
const maxProblems = 200

// String is the problem as `farebox check` prints it: place, path and message
// on the first line, the excerpt below.
func (p Problem) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: ", p.File, p.Line, p.Column)
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	if p.Excerpt != "" {
		b.WriteString("\n" + p.Excerpt)
	}
	return b.String()
}

// Problems is every mistake of one file, in the order of the file. It is the
// error that Load and Parse return for a file that could be opened.
type Problems struct {
	File string
	List []Problem
	more bool // the list was cut at maxProblems
}

// Error says how many mistakes there are and prints each.
func (p *Problems) Error() string {
	var b strings.Builder
	count := "1 mistake"
	if n := len(p.List); p.more {
		count = fmt.Sprintf("more than %d mistakes", n)
	} else if n != 1 {
		count = fmt.Sprintf("%d mistakes", n)
	}
	fmt.Fprintf(&b, "%s has %s", p.File, count)
	for _, one := range p.List {
		b.WriteString("\n\n" + one.String())
	}
	return b.String()
}

// report collects problems while a file is read.
type report struct {
	src  *source
	list []finding
	more bool
}

// finding waits for its excerpt until the whole file was read, because a
// secret further down the same line must be known before the line is shown.
type finding struct {
	at            place
	path, message string
}

func (r *report) add(at place, path, format string, args ...any) {
	if len(r.list) >= maxProblems {
		r.more = true
		return
	}
	r.list = append(r.list, finding{at, path, fmt.Sprintf(format, args...)})
}

// err is nil when nothing was reported.
func (r *report) err() error {
	if len(r.list) == 0 {
		return nil
	}
	slices.SortStableFunc(r.list, func(a, b finding) int {
		if a.at.line != b.at.line {
			return a.at.line - b.at.line
		}
		if a.at.column != b.at.column {
			return a.at.column - b.at.column
		}
		return strings.Compare(a.path, b.path)
	})
	p := &Problems{File: r.src.name, more: r.more}
	for _, one := range r.list {
		p.List = append(p.List, Problem{
			File: r.src.name, Line: one.at.line, Column: one.at.column, Path: one.path,
			Excerpt: r.src.excerpt(one.at), Message: one.message,
		})
	}
	return p
}

// Package report turns measurements into one self-contained HTML file: tables
// and plots as inline SVG, no script, no font and no picture from elsewhere, so
// that it can be mailed, archived and opened years later.
//
// Main types: Page, Section, Table, Chart. OfRuns and OfComparison make pages
// of the results of the rooms load and compare; nothing is measured here.
package report

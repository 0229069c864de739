package main

import (
	"embed"
	"strings"
	"text/template"
)

// script is the requests and configs as text: lists with an entry a line, and configs. A
// run or a loop fills in the names in ‹…›.
//
//go:embed script
var script embed.FS

// fill fills in a text of the script.
func fill(text string, values any) string {
	var b strings.Builder
	t := template.New("script").Delims("‹", "›").Funcs(template.FuncMap{"repeat": strings.Repeat})
	if err := template.Must(t.Parse(text)).Execute(&b, values); err != nil {
		panic("the script is part of the program and fits it: " + err.Error())
	}
	return b.String()
}

func readConfig(name string) string {
	b, err := script.ReadFile("script/" + name)
	if err != nil {
		panic("the script is part of the program: " + err.Error())
	}
	return string(b)
}

// lines are the entries of a list; values are placeholders and their values.
func lines(name string, values ...string) []string {
	filled := map[string]string{}
	for i := 0; i < len(values); i += 2 {
		filled[values[i]] = values[i+1]
	}
	list := strings.Split(strings.TrimSuffix(readConfig(name+".txt"), "\n"), "\n")
	for i, line := range list {
		if strings.Contains(line, "‹") {
			list[i] = fill(line, filled)
		}
	}
	return list
}

// configOf is one of the configs before the house that all share. tier: of text
// models, empty for none; breaker: of all upstreams.
func (l *lab) configOf(name, tier, breaker string) string {
	house := struct {
		Tier, Breaker, Sim string
		Nodes              []string
		Limited            bool
	}{tier, breaker, l.simURL, l.urls, tier != ""}
	if tier == "" {
		house.Tier = "unlimited"
	}
	return readConfig(name+".yaml") + fill(readConfig("house.yaml"), house)
}

package config

import (
	_ "embed"
	"fmt"
)

//go:embed demo.yaml
var demoFile []byte

// Demo is the built-in config of `make run`: simulated models at the given
// address, http://host:port without a path, so that everything can be tried
// without an account anywhere.
//
// It panics when the address is not usable, since both come with the program.
func Demo(simURL string) *Config {
	c, err := Parse("demo.yaml", demoFile, func(name string) (string, bool) {
		return simURL, name == "SIM_URL"
	})
	if err != nil {
		panic(fmt.Sprintf("config: the built-in config cannot be used with %s: %v", simURL, err))
	}
	c.Source = ""
	c.Simulated = true
	return c
}

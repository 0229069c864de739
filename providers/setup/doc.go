// Package setup writes first configs: `farebox init` from keys in the environment, `farebox import` from the files of
// other gateways. `farebox prices` shows the list of prices that both use.
package setup

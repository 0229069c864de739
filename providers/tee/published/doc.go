// Package published fetches and keeps what Intel publishes of processors: [Store] gives
// the collateral of a kind of processor out of a folder, or from Intel's service or a
// mirror of it. What is fetched is checked before it replaces what is kept; it is fetched
// again well before it ends, and holds until then when nobody answers.
package published

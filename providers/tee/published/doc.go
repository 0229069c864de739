// Package published fetches and stores Intel's publications about processors: [Store] gives
// the collateral of a kind of processor out of a folder, or from Intel's service or a
// mirror of it. Fetched collateral is checked before it replaces the stored one; it is
// fetched again well before it expires, and holds until then if no service answers.
package published

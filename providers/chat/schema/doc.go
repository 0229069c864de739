// Package schema checks models' answers against the JSON schema that a request
// demands, for upstreams that do not see to it themselves (upstreams.enforces_schema).
//
// A [Checker] has it done by children in a jail: schemas are the client's, answers are texts
// that the client had a model write, and together they can take any time and memory. [Work]
// is the work of such a child. References lead within the schema only: nothing is loaded from
// anywhere.
//
// Out of scope: the price of a violation, its report, and streams.
package schema

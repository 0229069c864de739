// Package schema checks what models write against the JSON schema that a request
// demands, for upstreams that do not see to it themselves (upstreams.enforces_schema).
//
// A [Checker] has it done by children in a jail: schemas are the client's, answers what
// the client had a model say, and together they can be made to take any time and
// memory. [Work] is what such a child does. References lead within the schema only:
// nothing is loaded from anywhere.
//
// What may not enter: what a violation costs, how it is reported, and streams.
package schema
